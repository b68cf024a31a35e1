# Processes that train together: the built program, started, asked and killed by the tests.
grapevine_test(node
  SOURCES
    node/tools.cpp app/tools.cpp models/tools.cpp node/commands_test.cpp node/refusals_test.cpp
    node/console_test.cpp node/runs_test.cpp node/faults_test.cpp node/links_test.cpp
    node/memory_test.cpp node/means_test.cpp node/names_test.cpp node/machines_test.cpp
    node/measures_test.cpp node/metrics_test.cpp node/malicious_test.cpp node/divergence_test.cpp
    node/told_test.cpp node/ends_test.cpp node/hostile_test.cpp
    messages/malicious_member.cpp
  USES grapevine_app ZLIB::ZLIB LibLZMA::LibLZMA GrapevineDep::JSON GrapevineDep::HTTPLIB)
add_dependencies(node_test grapevine)
include(${CMAKE_CURRENT_LIST_DIR}/hostile.cmake)
if(TARGET grapevine-network)
  add_dependencies(node_test grapevine-network)
  target_compile_definitions(node_test PRIVATE GRAPEVINE_HAS_NETWORKS)
endif()

# The socket of a node for scripts, driven by plain Python.
add_test(NAME guests COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/node/guests_test.py
  $<TARGET_FILE:grapevine>)

# A minute of kills and joins; cluster.py has the other faults, and ten minutes of it.
add_test(NAME churn COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/bench/cluster.py churn 1
  --program $<TARGET_FILE:grapevine>)
