# The program as its users meet it (the built binary, run by the tests), and its parts.
grapevine_test(app
  SOURCES
    app/tools.cpp models/tools.cpp app/compare_refusals_test.cpp app/compare_test.cpp
    app/config_test.cpp app/data_test.cpp app/doctor_test.cpp app/event_file_test.cpp app/methods_test.cpp app/own_data_test.cpp
    app/plan_test.cpp app/refusals_test.cpp
    app/reports_test.cpp app/reproduce_test.cpp app/script_output_test.cpp app/simulate_test.cpp app/surroundings_test.cpp app/evaluation_test.cpp app/topology_test.cpp
    app/train_test.cpp app/cost_test.cpp
  USES grapevine_app ZLIB::ZLIB LibLZMA::LibLZMA GrapevineDep::JSON)
foreach(shim old_file_system few_threads broken_wakes)  # preloaded into the program
  add_library(${shim} MODULE app/shims/${shim}.c)
  target_link_libraries(${shim} PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(${shim} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  add_dependencies(app_test ${shim})
endforeach()
add_dependencies(app_test grapevine)
if(TARGET grapevine-network)
  add_dependencies(app_test grapevine-network)
  target_compile_definitions(app_test PRIVATE GRAPEVINE_HAS_NETWORKS)
endif()
