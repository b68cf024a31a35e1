# The library as its users see it.
grapevine_test(library
  SOURCES library/run_test.cpp library/node_test.cpp library/register_test.cpp library/worker_test.cpp
    library/spawn_test.cpp library/saved_test.cpp models/tools.cpp
  USES grapevine_checkpoint ZLIB::ZLIB LibLZMA::LibLZMA)
