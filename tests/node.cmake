# Processes that train together: the built program, started, asked and killed by the tests.
grapevine_test(node
  SOURCES
    node_tools.cpp app_tools.cpp models_tools.cpp node_commands_test.cpp node_refusals_test.cpp
    node_console_test.cpp node_runs_test.cpp node_faults_test.cpp node_links_test.cpp node_memory_test.cpp node_machines_test.cpp node_measures_test.cpp
  USES grapevine_app ZLIB::ZLIB LibLZMA::LibLZMA GrapevineDep::JSON)
add_dependencies(node_test grapevine)
