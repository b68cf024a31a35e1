# What a run goes on from: on a disk that forgets, on the virtual clock, and as users meet it.
grapevine_test(checkpoint
  SOURCES
    checkpoint/counted.cpp checkpoint/forgetful_disk.cpp checkpoint/crash_test.cpp
    checkpoint/resume_test.cpp
    checkpoint/program_test.cpp app/tools.cpp models/tools.cpp
  USES grapevine_app grapevine_simulated_runs ZLIB::ZLIB LibLZMA::LibLZMA GrapevineDep::JSON)
add_dependencies(checkpoint_test grapevine)
if(TARGET grapevine-network)
  add_dependencies(checkpoint_test grapevine-network)
  target_compile_definitions(checkpoint_test PRIVATE GRAPEVINE_HAS_NETWORKS)

  # By itself, because LibTorch's headers come with a library fmt of their own.
  grapevine_test(checkpoint_statistics
    SOURCES checkpoint/statistics_test.cpp models/tools.cpp
    USES grapevine_checkpoint grapevine_torch ZLIB::ZLIB LibLZMA::LibLZMA Torch::cpu)
endif()
