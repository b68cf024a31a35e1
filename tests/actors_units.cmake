# What actors/ is made of, without actors: rules, conversations, simulated links, plans.
grapevine_test(actors_units
  SOURCES
    conversation_harness.cpp conversation_watch.cpp actors_conversation_pairwise_test.cpp
    actors_conversation_frames_test.cpp actors_conversation_policy_test.cpp
    actors_conversation_collective_test.cpp
    actors_rules_test.cpp actors_rules_oracle_test.cpp
    actors_rules_constants_test.cpp
    actors_transport_test.cpp actors_link_transport_test.cpp actors_plan_test.cpp
  USES grapevine_actors)
target_include_directories(actors_units_test SYSTEM PRIVATE ${EIGEN_INCLUDE})

# The round methods, all ranks in one loop (lockstep.hpp).
grapevine_test(actors_methods
  SOURCES
    lockstep.cpp
    actors_methods_compressed_test.cpp actors_methods_gossip_test.cpp
    actors_methods_gossip_losses_test.cpp actors_methods_push_sum_test.cpp
    actors_methods_refusals_test.cpp
    actors_methods_powergossip_test.cpp actors_methods_powergossip_pairs_test.cpp
    actors_methods_powergossip_bytes_test.cpp
    actors_methods_mean_estimation_test.cpp
    actors_methods_relay_test.cpp actors_methods_relay_losses_test.cpp
    actors_methods_relay_trees_test.cpp
  USES grapevine_actors)
target_include_directories(actors_methods_test SYSTEM PRIVATE ${EIGEN_INCLUDE})

# Whoever links the actors into a program, the program of app/ and the examples included.
if(GRAPEVINE_SANITIZE MATCHES "thread")
  target_sources(grapevine_actors
    INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_LIST_DIR}/tsan_shim.cpp>)
  target_link_options(grapevine_actors INTERFACE $<BUILD_INTERFACE:-rdynamic>)
  target_link_libraries(grapevine_actors INTERFACE $<BUILD_INTERFACE:${CMAKE_DL_LIBS}>)
endif()
