# Membership, in a seeded simulation of nodes and their links (membership/world.hpp).
grapevine_test(membership
  SOURCES
    membership/world.cpp membership/world_faults.cpp
    membership/table_test.cpp membership/membership_test.cpp membership/seeds_test.cpp
    membership/ranks_of_others_test.cpp membership/suspicions_test.cpp
    membership/next_graph_test.cpp
    membership/own_incarnation_test.cpp
    membership/alone_test.cpp
    membership/transfer_test.cpp membership/malicious_test.cpp messages/malicious_member.cpp
  USES grapevine_actors)
