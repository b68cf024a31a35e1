# The Python package, as its users meet it: real nodes, real scripts. With torch where the interpreter
# can import it: that of .deps/torch, which `./test --with-torch` makes, or the one in the path.
add_test(NAME python COMMAND bash -c
  "exec \"$([ -e ${PROJECT_SOURCE_DIR}/.deps/torch/whole ] && echo ${PROJECT_SOURCE_DIR}/.deps/torch/bin/python || echo python3)\" \
${CMAKE_CURRENT_LIST_DIR}/python/run.py --program $<TARGET_FILE:grapevine>")
