# Whole nodes and their links on the virtual clock, with faults at random (simulated_cluster.hpp).
grapevine_test(cluster
  SOURCES
    simulated_links.cpp simulated_dials.cpp simulated_cluster.cpp
    cluster_scenario.cpp cluster_checks.cpp cluster_seeds_test.cpp
  USES grapevine_actors)
