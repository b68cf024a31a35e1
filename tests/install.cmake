# Where ./run and ./test take LibTorch from.
add_test(NAME setup COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/install/setup_test.sh ${PROJECT_SOURCE_DIR})

# The package, as a stranger meets it. Not under sanitizers, which the stranger would have to use too.
if(NOT GRAPEVINE_SANITIZE)
  add_test(NAME install COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/install/install_test.sh
    ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  add_test(NAME wheel COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/install/wheel_test.py
    ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
endif()
