# Whole nodes and their links on the virtual clock, with faults at random (cluster/simulated_cluster.hpp).
grapevine_test(cluster
  SOURCES
    cluster/simulated_links.cpp cluster/simulated_dials.cpp cluster/simulated_cluster.cpp
    cluster/scenario.cpp cluster/checks.cpp cluster/recorded_jumps.cpp cluster/seeds_test.cpp
    cluster/members_test.cpp cluster/pool_test.cpp
    cluster/constants_test.cpp cluster/means_test.cpp cluster/links_test.cpp
    cluster/devices_test.cpp messages/malicious_member.cpp
  USES grapevine_actors grapevine_adversary)

# What a cluster is made of, without actors.
grapevine_test(cluster_units
  SOURCES
    cluster/mean_tree_test.cpp cluster/mean_sums_test.cpp cluster/mean_exchange_test.cpp
    cluster/rank_sum_test.cpp cluster/mean_orders_test.cpp
    cluster/departures_test.cpp cluster/find_sources_test.cpp
    cluster/run_lifecycle_test.cpp cluster/pace_test.cpp
  USES grapevine_actors)
