grapevine_test(models
  SOURCES
    models_tools.cpp models_analytic_test.cpp models_batches_test.cpp models_data_test.cpp
    models_real_data_test.cpp models_files_test.cpp
  USES grapevine_models ZLIB::ZLIB LibLZMA::LibLZMA)

# With LibTorch: the module is loaded as the program does, and checked against torch::nn.
if(TARGET Torch::cpu)
  grapevine_test(models_network
    SOURCES models_tools.cpp models_network_test.cpp
    USES grapevine_models ZLIB::ZLIB LibLZMA::LibLZMA Torch::cpu)
  target_include_directories(models_network_test SYSTEM
    PRIVATE $<TARGET_PROPERTY:Torch::cpu,INTERFACE_SYSTEM_INCLUDE_DIRECTORIES>)
  add_dependencies(models_network_test grapevine-network)
endif()
