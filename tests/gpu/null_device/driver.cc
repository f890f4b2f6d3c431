// CUDA's driver (libcuda) on the null device: what Triton and Inductor's launchers ask of it.

#include <dlfcn.h>

#include <cstring>

#include "device.h"

using namespace null_device;

// A kernel of a module is its name.
struct CUfunc_st {
    std::string name;
};

namespace {

constexpr CUresult DONE = CUDA_SUCCESS;
int context, module, library;  // there is one of each, and nothing in it

CUresult launched(CUfunction function, CUstream stream) {
    return told(stream, "kernel", function->name, A_KERNEL), DONE;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return DONE; }
CUresult cuDriverGetVersion(int* version) { return *version = DRIVER, DONE; }
CUresult cuDeviceGetCount(int* count) { return *count = 1, DONE; }
CUresult cuDeviceGet(CUdevice* device, int) { return *device = 0, DONE; }
CUresult cuDeviceGetName(char* text, int length, CUdevice) {
    return strncpy(text, NAME, length), DONE;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
    return *value = device_attribute(static_cast<cudaDeviceAttr>(attribute)), DONE;
}
CUresult cuGetErrorName(CUresult, const char** text) { return *text = "error", DONE; }
CUresult cuGetErrorString(CUresult, const char** text) {
    return *text = "the null device does not answer this call", DONE;
}

CUresult cuCtxGetCurrent(CUcontext* found) {
    return *found = reinterpret_cast<CUcontext>(&context), DONE;
}
CUresult cuCtxSetCurrent(CUcontext) { return DONE; }
CUresult cuCtxGetDevice(CUdevice* device) { return *device = 0, DONE; }
CUresult cuDevicePrimaryCtxRetain(CUcontext* found, CUdevice) { return cuCtxGetCurrent(found); }
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* is_active) {
    return *flags = 0, *is_active = 1, DONE;
}
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
        return *static_cast<CUdeviceptr*>(value) = pointer, DONE;
    return static_cast<CUresult>(unanswered("cuPointerGetAttribute", CUDA_ERROR_NOT_SUPPORTED));
}

CUresult cuModuleLoad(CUmodule* found, const char*) {
    return *found = reinterpret_cast<CUmodule>(&module), DONE;
}
CUresult cuModuleLoadData(CUmodule* found, const void*) { return cuModuleLoad(found, ""); }
CUresult cuModuleLoadDataEx(CUmodule* found, const void*, unsigned, CUjit_option*, void**) {
    return cuModuleLoad(found, "");
}
CUresult cuModuleUnload(CUmodule) { return DONE; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
    return *function = new CUfunc_st{name}, DONE;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return *value = 1024, DONE;
        case CU_FUNC_ATTRIBUTE_NUM_REGS: return *value = 32, DONE;
        default: return *value = 0, DONE;  // nothing is spilled or shared
    }
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return DONE; }
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return DONE; }
CUresult cuLaunchKernel(
    CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
    CUstream stream, void**, void**) {
    return launched(function, stream);
}
CUresult cuLaunchKernelEx(
    const CUlaunchConfig* configuration, CUfunction function, void**, void**) {
    return launched(function, configuration->hStream);
}
CUresult cuLaunchCooperativeKernel(
    CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
    CUstream stream, void**) {
    return launched(function, stream);
}
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
    return *clusters = 8, DONE;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, size_t) {
    return *blocks = 2, DONE;
}

// A function of this library by its name (the header calls the newest version so).
CUresult cuGetProcAddress(
    const char* name, void** function, int, cuuint64_t, CUdriverProcAddressQueryResult* result) {
    *function = dlsym(RTLD_DEFAULT, name);
    if (result)
        *result = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? DONE : CUDA_ERROR_NOT_FOUND;
}
}
