// What is tested on FakeCuda, as C++: it has no kernels.
#include "kernels/gpu/cuda_device.cu"
