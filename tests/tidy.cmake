grapevine_test(tidy SOURCES tidy/tidy_test.cpp tidy/rules.cpp USES)

# A patch whose line has moved no longer tells whether the tests notice it.
add_test(NAME mutants_fit COMMAND ${PROJECT_SOURCE_DIR}/tests/mutants/run.py --fit)
