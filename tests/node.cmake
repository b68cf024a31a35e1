# Processes that train together: the built program, started, asked and killed by the tests.
grapevine_test(node
  SOURCES
    node_tools.cpp app_tools.cpp models_tools.cpp node_commands_test.cpp node_refusals_test.cpp
    node_console_test.cpp node_runs_test.cpp node_faults_test.cpp node_links_test.cpp
    node_memory_test.cpp node_machines_test.cpp node_measures_test.cpp
  USES grapevine_app ZLIB::ZLIB LibLZMA::LibLZMA GrapevineDep::JSON)
add_dependencies(node_test grapevine)

# A minute of kills and joins; cluster.py has the other faults, and ten minutes of it.
add_test(NAME churn COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/bench/cluster.py churn 1
  --program $<TARGET_FILE:grapevine>)
