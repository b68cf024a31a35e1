grapevine_test(topologies
  SOURCES topologies/graphs_test.cpp topologies/refusals_test.cpp topologies/spectrum_test.cpp
    topologies/elimination_test.cpp topologies/decay_test.cpp topologies/drawing_test.cpp
    topologies/trees_test.cpp topologies/spanning_test.cpp
    topologies/weights_test.cpp topologies/schedule_test.cpp
  USES grapevine_topologies GrapevineDep::EIGEN)
grapevine_benchmark(topologies SOURCES topologies/bench.cpp USES grapevine_topologies)
