# Every example is run, and compared with what its head comment says it prints.
grapevine_test(examples SOURCES examples/examples_test.cpp USES)
add_dependencies(examples_test
  1_consensus 2_quadratics 3_stragglers 4_images 5_custom_worker 6_reconfigure 7_two_nodes
  9_own_rule 10_own_sink 11_guest grapevine)
if(TARGET grapevine-network)
  add_dependencies(examples_test 8_own_network)
endif()

# Units, scripts and pages for where a run lives.
add_test(NAME deploy COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/examples/deploy_test.py
  $<TARGET_FILE:grapevine>)
