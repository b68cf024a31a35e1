#Links between nodes, without actors.
grapevine_test(transport
  SOURCES transport_links_test.cpp transport_bulk_test.cpp transport_queue_test.cpp
    transport_losses_test.cpp transport_security_test.cpp transport_strangers_test.cpp
  USES grapevine_transport)
grapevine_benchmark(links
  SOURCES bench/links_bench.cpp bench/links_plain.cpp
  USES grapevine_transport)
