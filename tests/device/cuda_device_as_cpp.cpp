// The file under test on FakeCuda, compiled as C++: it has no kernels.
#include "kernels/gpu/cuda_device.cu"
