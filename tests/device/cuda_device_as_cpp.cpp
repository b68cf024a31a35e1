// What is tested on FakeCuda, as C++: it has no kernels.
#include "kernels/cuda_device.cu"
