# The program as its users meet it (the built binary, run by the tests), and its parts.
grapevine_test(app
  SOURCES
    app_tools.cpp models_tools.cpp app_compare_refusals_test.cpp app_compare_test.cpp
    app_config_test.cpp app_data_test.cpp app_plan_test.cpp app_refusals_test.cpp
    app_reports_test.cpp app_reproduce_test.cpp app_simulate_test.cpp app_topology_test.cpp
    app_train_test.cpp
  USES grapevine_app ZLIB::ZLIB LibLZMA::LibLZMA GrapevineDep::JSON)
add_dependencies(app_test grapevine)
if(TARGET grapevine-network)
  add_dependencies(app_test grapevine-network)
  target_compile_definitions(app_test PRIVATE GRAPEVINE_HAS_NETWORKS)
endif()
