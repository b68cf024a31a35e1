add_library(grapevine_simulated_runs STATIC run/simulated_runs.cpp)
target_include_directories(grapevine_simulated_runs PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(grapevine_simulated_runs PUBLIC grapevine_actors PRIVATE grapevine_options)
grapevine_test(actors_paper SOURCES run/paper_test.cpp algorithms/powergossip_published_test.cpp
  USES grapevine_simulated_runs grapevine_lockstep GrapevineDep::EIGEN)
grapevine_test(actors_pairing SOURCES run/pairing_test.cpp USES grapevine_simulated_runs)
grapevine_test(actors_same_events SOURCES run/same_events_test.cpp USES grapevine_simulated_runs)
grapevine_test(actors_runs SOURCES run/runs_test.cpp run/rounds_runs_test.cpp run/own_time_test.cpp run/methods_test.cpp run/divergence_test.cpp
    run/far_peers_test.cpp run/bad_peers_test.cpp run/pool_test.cpp run/cost_test.cpp run/local_steps_test.cpp run/growth_test.cpp
    run/guests_test.cpp run/simulated_scripts.cpp
  USES grapevine_simulated_runs)
grapevine_test(actors_manager SOURCES run/topology_manager_test.cpp run/node_ranks_test.cpp settings/settings_test.cpp USES grapevine_actors)
grapevine_test(actors_wall SOURCES clocks/wall_scheduler_test.cpp USES grapevine_actors)
grapevine_benchmark(simulator SOURCES bench/simulator_bench.cpp USES grapevine_simulated_runs)
grapevine_test(actors_device SOURCES run/device_runs_test.cpp run/device_cost_test.cpp run/device_calls_test.cpp run/device_wall_test.cpp device/device_dock_test.cpp
    device/device_links_test.cpp run/device_town.cpp device/nccl_links_test.cpp
    messages/malicious_member.cpp run/device_processes_test.cpp run/node_process.cpp
    run/device_gpu_test.cpp state/turns_test.cpp device/silence_watch_test.cpp run/simulated_scripts.cpp device/threaded.cpp
  USES grapevine_simulated_runs grapevine_adversary)
grapevine_benchmark(vmm SOURCES bench/vmm_bench.cpp run/node_process.cpp device/threaded.cpp USES grapevine_actors)
if(TARGET Torch::cpu)
  grapevine_test(actors_networks SOURCES run/device_networks_test.cpp device/threaded.cpp models/tools.cpp
    USES grapevine_actors grapevine_torch ZLIB::ZLIB LibLZMA::LibLZMA Torch::cpu)
  add_dependencies(actors_networks_test grapevine-network)
endif()
