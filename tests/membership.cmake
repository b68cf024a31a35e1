# Membership, in a seeded simulation of nodes and their links (membership_world.hpp).
grapevine_test(membership
  SOURCES
    membership_world.cpp membership_world_faults.cpp
    membership_table_test.cpp membership_test.cpp membership_seeds_test.cpp
    membership_transfer_test.cpp
  USES grapevine_actors)
