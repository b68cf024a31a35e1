# What actors/ is made of, without actors: rules, conversations, simulated links, plans.
grapevine_test(actors_units
  SOURCES
    conversations/harness.cpp conversations/watch.cpp conversations/pairwise_test.cpp
    conversations/frames_test.cpp conversations/policy_test.cpp
    conversations/rounds_test.cpp conversations/collective_test.cpp conversations/pair_exchange_test.cpp
    conversations/partner_policy_test.cpp
    algorithms/rules_test.cpp algorithms/rules_oracle_test.cpp
    algorithms/rules_constants_test.cpp algorithms/take_test.cpp
    algorithms/optimizer_test.cpp conversations/numbers_test.cpp
    guard/guard_test.cpp rank/work_pool_test.cpp
    transport/simulated_transport_test.cpp transport/link_transport_test.cpp
    transport/arrivals_test.cpp settings/plan_test.cpp
    settings/learning_rate_test.cpp run/stall_watch_test.cpp settings/histogram_test.cpp
    settings/cost_test.cpp
  USES grapevine_actors)
target_include_directories(actors_units_test SYSTEM PRIVATE ${EIGEN_INCLUDE})

# The round methods, all ranks in one loop.
add_library(grapevine_lockstep STATIC algorithms/lockstep.cpp)
target_include_directories(grapevine_lockstep SYSTEM PUBLIC ${EIGEN_INCLUDE})
target_link_libraries(grapevine_lockstep PUBLIC grapevine_actors PRIVATE grapevine_options)
grapevine_test(actors_methods
  SOURCES
    algorithms/compressed_test.cpp algorithms/gossip_test.cpp
    algorithms/gossip_losses_test.cpp algorithms/push_sum_test.cpp
    algorithms/outer_pairs_test.cpp algorithms/random_part_test.cpp
    algorithms/refusals_test.cpp
    algorithms/powergossip_test.cpp algorithms/powergossip_pairs_test.cpp
    algorithms/powergossip_bytes_test.cpp
    algorithms/mean_estimation_test.cpp
    algorithms/relay_test.cpp algorithms/relay_losses_test.cpp
    algorithms/relay_trees_test.cpp
  USES grapevine_lockstep)

# Whoever links the actors into a program, the program of app/ and the examples included.
if(GRAPEVINE_SANITIZE MATCHES "thread")
  target_sources(grapevine_actors
    INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_LIST_DIR}/tsan_shim.cpp>)
  target_link_options(grapevine_actors INTERFACE $<BUILD_INTERFACE:-rdynamic>)
  target_link_libraries(grapevine_actors INTERFACE $<BUILD_INTERFACE:${CMAKE_DL_LIBS}>)
endif()
