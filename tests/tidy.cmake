grapevine_test(tidy SOURCES tidy/tidy_test.cpp tidy/rules.cpp USES)
