grapevine_test(topologies
  SOURCES topologies_graphs_test.cpp topologies_refusals_test.cpp topologies_spectrum_test.cpp
    topologies_elimination_test.cpp topologies_decay_test.cpp topologies_drawing_test.cpp
    topologies_trees_test.cpp topologies_spanning_test.cpp
    topologies_weights_test.cpp topologies_schedule_test.cpp
  USES grapevine_topologies GrapevineDep::EIGEN)
grapevine_benchmark(topologies SOURCES topologies_bench.cpp USES grapevine_topologies)
