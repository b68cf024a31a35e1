#Links between nodes, without actors.
grapevine_test(transport
  SOURCES transport/links_test.cpp transport/bulk_test.cpp transport/queue_test.cpp
    transport/losses_test.cpp transport/security_test.cpp transport/local_socket_test.cpp
    transport/strangers_test.cpp transport/key_holder_test.cpp transport/bulk_peer_test.cpp
    transport/memory_line_test.cpp
  USES grapevine_transport OpenSSL::SSL)
grapevine_benchmark(links
  SOURCES bench/links_bench.cpp bench/links_plain.cpp
  USES grapevine_transport)
