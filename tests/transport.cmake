#Links between nodes, without actors.
grapevine_test(transport SOURCES transport_links_test.cpp USES grapevine_transport)
