# Membership, in a seeded simulation of nodes and their links (membership_world.hpp).
grapevine_test(membership
  SOURCES
    membership_world.cpp membership_world_faults.cpp
    membership_test.cpp
  USES grapevine_actors)
