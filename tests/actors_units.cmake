# What actors/ is made of, without actors: rules, conversations, simulated links, plans.
grapevine_test(actors_units
  SOURCES
    conversation_harness.cpp conversation_watch.cpp actors_conversation_pairwise_test.cpp
    actors_conversation_frames_test.cpp actors_conversation_policy_test.cpp
    actors_conversation_collective_test.cpp
    actors_rules_test.cpp actors_rules_oracle_test.cpp
    actors_rules_constants_test.cpp
    actors_transport_test.cpp actors_plan_test.cpp
  USES grapevine_actors)
target_include_directories(actors_units_test SYSTEM PRIVATE ${EIGEN_INCLUDE})
