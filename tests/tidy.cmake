grapevine_test(tidy SOURCES tidy/tidy_test.cpp tidy/rules.cpp USES)

# A patch whose line has moved no longer tells whether the tests notice it.
add_test(NAME mutants_fit COMMAND ${PROJECT_SOURCE_DIR}/tests/mutants/run.py --fit)

# What each mutex guards: clang reads the annotations, g++ does not.
find_program(GRAPEVINE_CLANGXX NAMES clang++ clang++-14)
if(GRAPEVINE_CLANGXX)
  set(includes "$<TARGET_PROPERTY:grapevine_app,INCLUDE_DIRECTORIES>")
  set(definitions "$<TARGET_PROPERTY:grapevine_app,COMPILE_DEFINITIONS>")
  add_test(NAME thread_safety
    COMMAND ${PROJECT_SOURCE_DIR}/tests/tidy/thread_safety.py ${GRAPEVINE_CLANGXX}
      "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>"
      "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},;-D>>"
    COMMAND_EXPAND_LISTS)
endif()
