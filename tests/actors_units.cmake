# What actors/ is made of, without actors: rules, conversations, simulated links, plans.
grapevine_test(actors_units
  SOURCES
    conversation_harness.cpp conversation_watch.cpp actors_conversation_pairwise_test.cpp
    actors_conversation_frames_test.cpp actors_conversation_policy_test.cpp
  USES grapevine_actors)
