grapevine_test(tidy SOURCES tidy_test.cpp tidy_rules.cpp USES)
