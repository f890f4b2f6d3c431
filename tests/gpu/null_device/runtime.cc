// CUDA's runtime (libcudart) on the null device.

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "device.h"

using namespace null_device;

namespace {

std::map<const void*, std::string> kernel_names;  // by the host's function
std::map<uintptr_t, size_t> pinned;               // host memory that the device reads by itself

// Streams that are captured, by the graph; who may not wait meanwhile depends on the capture's mode
// and on the thread's own.
struct Capture {
    std::thread::id thread;
    cudaStreamCaptureMode mode;
};
std::map<CUgraph_st*, Capture> being_captured;
thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;
std::atomic<int> streams{0}, graphs{0};

bool is_pinned(const void* pointer) {
    std::lock_guard<std::recursive_mutex> held(lock);
    uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    auto behind = pinned.upper_bound(address);
    if (behind == pinned.begin()) return false;
    auto found = std::prev(behind);
    return address < found->first + found->second;
}

cudaError_t launched(const void* function, cudaStream_t stream) {
    std::lock_guard<std::recursive_mutex> held(lock);
    auto found = kernel_names.find(function);
    told(stream, "kernel", found == kernel_names.end() ? "?" : found->second, A_KERNEL);
    return cudaSuccess;
}

// Copies are done where the host may read or have written them, and small ones between arrays of
// the device: sizes that ranks compare.
cudaError_t copied(void* to, const void* from, size_t bytes, cudaStream_t stream, bool is_waited) {
    bool to_device = is_on_device(to), from_device = is_on_device(from);
    std::string text = to_device ? (from_device ? "D2D" : "H2D") : (from_device ? "D2H" : "H2H");
    bool is_between = to_device && from_device;
    if (!is_between) text += is_pinned(to_device ? from : to) ? " pinned" : " pageable";
    told(stream, "copy", text + " " + std::to_string(bytes), A_KERNEL);
    constexpr size_t SMALL = 65536;
    if (!is_between || bytes < SMALL) memmove(to, from, bytes);
    return is_waited && !is_between ? wait("cudaMemcpy") : cudaSuccess;
}

}  // namespace

namespace null_device {

cudaError_t wait(const char* function) {
    std::lock_guard<std::recursive_mutex> held(lock);
    host("wait", function);
    for (auto& [graph, capture] : being_captured) {
        bool is_own = capture.thread == std::this_thread::get_id();
        bool forbids = is_own ? capture.mode != cudaStreamCaptureModeRelaxed
                              : capture.mode == cudaStreamCaptureModeGlobal;
        if (forbids && mode_of_thread != cudaStreamCaptureModeRelaxed)
            return cudaErrorStreamCaptureUnsupported;
    }
    return cudaSuccess;
}

}  // namespace null_device

extern "C" {

// ---- the device

cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = DRIVER, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "error"; }
const char* cudaGetErrorString(cudaError_t error) {
    if (error == cudaErrorStreamCaptureUnsupported)
        return "the host waits for the device while a stream is captured";
    if (error == cudaErrorMemoryAllocation) return "out of memory";
    return "the null device does not answer this call";
}
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int) {
    memset(found, 0, sizeof *found);
    strcpy(found->name, NAME);
    found->totalGlobalMem = MEMORY_BYTES;
    found->major = device_attribute(cudaDevAttrComputeCapabilityMajor);
    found->minor = device_attribute(cudaDevAttrComputeCapabilityMinor);
    found->multiProcessorCount = device_attribute(cudaDevAttrMultiProcessorCount);
    found->warpSize = device_attribute(cudaDevAttrWarpSize);
    found->sharedMemPerBlock = device_attribute(cudaDevAttrMaxSharedMemoryPerBlock);
    found->sharedMemPerBlockOptin = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    found->sharedMemPerMultiprocessor =
        device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    found->regsPerBlock = device_attribute(cudaDevAttrMaxRegistersPerBlock);
    found->regsPerMultiprocessor = device_attribute(cudaDevAttrMaxRegistersPerMultiprocessor);
    found->maxThreadsPerBlock = device_attribute(cudaDevAttrMaxThreadsPerBlock);
    found->maxThreadsPerMultiProcessor =
        device_attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
    found->maxBlocksPerMultiProcessor = 32;
    found->maxThreadsDim[0] = found->maxThreadsDim[1] = 1024;
    found->maxThreadsDim[2] = 64;
    found->maxGridSize[0] = device_attribute(cudaDevAttrMaxGridDimX);
    found->maxGridSize[1] = found->maxGridSize[2] = 65535;
    found->l2CacheSize = device_attribute(cudaDevAttrL2CacheSize);
    found->memoryBusWidth = device_attribute(cudaDevAttrGlobalMemoryBusWidth);
    found->textureAlignment = 512;
    found->asyncEngineCount = 3;
    found->concurrentKernels = found->ECCEnabled = found->unifiedAddressing = 1;
    found->managedMemory = found->streamPrioritiesSupported = 1;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    return *value = device_attribute(attribute), cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int) {
    snprintf(text, length, "0000:01:00.0");
    return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0, *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 1, cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }

// A function of the driver (driver.cc), which stands in this very library.
cudaError_t cudaGetDriverEntryPointByVersion(
    const char* name, void** function, unsigned, unsigned long long,
    cudaDriverEntryPointQueryResult* result) {
    *function = dlsym(RTLD_DEFAULT, name);
    if (result)
        *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

// ---- memory

// A card waits for all its work when memory is taken from it or given back.
cudaError_t cudaMalloc(void** pointer, size_t bytes) {
    host("allocate", std::to_string(bytes));
    return allocate(pointer, bytes) ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* pointer) {
    if (pointer) host("free", "cudaFree");
    return release(pointer) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) {
    return allocate(pointer, bytes) ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) {
    return release(pointer) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* all_bytes) {
    *all_bytes = MEMORY_BYTES;
    *free_bytes = MEMORY_BYTES - used_bytes();
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
    std::lock_guard<std::recursive_mutex> held(lock);
    host("allocate", std::to_string(bytes) + " pinned");
    *pointer = calloc(1, bytes);
    pinned[reinterpret_cast<uintptr_t>(*pointer)] = bytes;
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void* pointer) {
    std::lock_guard<std::recursive_mutex> held(lock);
    pinned.erase(reinterpret_cast<uintptr_t>(pointer));
    free(pointer);
    return cudaSuccess;
}
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
    std::lock_guard<std::recursive_mutex> held(lock);
    pinned[reinterpret_cast<uintptr_t>(pointer)] = bytes;
    return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* pointer) {
    std::lock_guard<std::recursive_mutex> held(lock);
    pinned.erase(reinterpret_cast<uintptr_t>(pointer));
    return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* pointer) {
    memset(found, 0, sizeof *found);
    bool on_device = is_on_device(pointer);
    found->type = on_device            ? cudaMemoryTypeDevice
                  : is_pinned(pointer) ? cudaMemoryTypeHost
                                       : cudaMemoryTypeUnregistered;
    found->devicePointer = const_cast<void*>(pointer);
    found->hostPointer = on_device ? nullptr : const_cast<void*>(pointer);
    return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void** pointer, const void*) {
    return allocate(pointer, 512) ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
    return copied(to, from, bytes, nullptr, true);
}
cudaError_t cudaMemcpyAsync(
    void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
    return copied(to, from, bytes, stream, false);
}
cudaError_t cudaMemcpyPeerAsync(
    void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
    return copied(to, from, bytes, stream, false);
}
cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) {
    return cudaSuccess;
}
cudaError_t cudaMemset(void*, int, size_t bytes) {
    return told(nullptr, "fill", std::to_string(bytes), A_KERNEL), cudaSuccess;
}
cudaError_t cudaMemsetAsync(void*, int, size_t bytes, cudaStream_t stream) {
    return told(stream, "fill", std::to_string(bytes), A_KERNEL), cudaSuccess;
}

// ---- streams and events

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    return *stream = new CUstream_st{++streams}, cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    return cudaStreamCreate(stream);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
    return cudaStreamCreate(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
    return *priority = 0, cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return wait("cudaStreamSynchronize"); }
cudaError_t cudaDeviceSynchronize() { return wait("cudaDeviceSynchronize"); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return wait("cudaEventSynchronize"); }

// A stream that waits for an event of a stream that is captured is captured too.
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
    std::lock_guard<std::recursive_mutex> held(lock);
    CUstream_st& stream = stream_of(handle);
    if (event->graph && being_captured.count(event->graph) && !stream.graph) {
        stream.graph = event->graph;
        event->graph->streams.push_back(&stream);
    }
    return cudaSuccess;
}
cudaError_t cudaStreamAddCallback(cudaStream_t, cudaStreamCallback_t, void*, unsigned) {
    return host("wait", "cudaStreamAddCallback"), cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t, void*) {
    return host("wait", "cudaLaunchHostFunc"), cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = new CUevent_st, cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    return cudaEventCreate(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    std::lock_guard<std::recursive_mutex> held(lock);
    event->at = now();
    event->graph = stream_of(stream).graph;
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
    return cudaEventRecord(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    *milliseconds = static_cast<float>(end->at - begin->at);
    if (*milliseconds <= 0) *milliseconds = 0.001f;  // no two moments are one
    return cudaSuccess;
}

// ---- graphs

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    return std::swap(*mode, mode_of_thread), cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    *status = stream_of(stream).graph ? cudaStreamCaptureStatusActive
                                      : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* number,
    cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
    size_t* count) {
    CUgraph_st* own = stream_of(stream).graph;
    if (number) *number = reinterpret_cast<unsigned long long>(own);
    if (graph) *graph = own;
    if (nodes) *nodes = nullptr;
    if (edges) *edges = nullptr;
    if (count) *count = 0;
    return cudaStreamIsCapturing(stream, status);
}
cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
    std::lock_guard<std::recursive_mutex> held(lock);
    CUstream_st& stream = stream_of(handle);
    stream.graph = new CUgraph_st;
    stream.graph->streams.push_back(&stream);
    being_captured[stream.graph] = {std::this_thread::get_id(), mode};
    host("capture", "begins");
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
    std::lock_guard<std::recursive_mutex> held(lock);
    *graph = stream_of(handle).graph;
    being_captured.erase(*graph);
    for (CUstream_st* stream : (*graph)->streams) stream->graph = nullptr;
    host("capture", "ends: " + std::to_string((*graph)->lines.size()));
    return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
    return *count = graph->lines.size(), cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(
    cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
    return *executable = new CUgraphExec_st{++graphs, graph->lines}, cudaSuccess;
}
// What a replay does stands in the log behind it, with the graph's number.
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    std::lock_guard<std::recursive_mutex> held(lock);
    told(stream, "graph", std::to_string(graph->number), A_KERNEL * graph->lines.size());
    for (const std::string& line : graph->lines) replayed(graph->number, line);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }

// ---- kernels

void** __cudaRegisterFatBinary(void*) {
    static void* handle;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(
    void**, const char* function, char*, const char* name, int, void*, void*, void*, void*, int*) {
    std::lock_guard<std::recursive_mutex> held(lock);
    kernel_names[function] = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

// The <<<…>>> of a launch: the host pushes it and the kernel's stub takes it.
static thread_local struct {
    dim3 grid, block;
    size_t shared;
    void* stream;
} configuration;
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
    configuration = {grid, block, shared, stream};
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    *grid = configuration.grid, *block = configuration.block, *shared = configuration.shared;
    *static_cast<void**>(stream) = configuration.stream;
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
    return *kernel = (cudaKernel_t)function, cudaSuccess;
}
cudaError_t __cudaLaunchKernel(
    cudaKernel_t kernel, dim3, dim3, void**, size_t, cudaStream_t stream) {
    return launched(kernel, stream);
}
cudaError_t cudaLaunchKernel(
    const void* function, dim3, dim3, void**, size_t, cudaStream_t stream) {
    return launched(function, stream);
}
cudaError_t cudaLaunchCooperativeKernel(
    const void* function, dim3, dim3, void**, size_t, cudaStream_t stream) {
    return launched(function, stream);
}
cudaError_t cudaLaunchKernelExC(
    const cudaLaunchConfig_t* configuration, const void* function, void**) {
    return launched(function, configuration->stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, const void*) {
    memset(found, 0, sizeof *found);
    found->maxThreadsPerBlock = 1024;
    found->numRegs = 32;
    found->ptxVersion = found->binaryVersion = 90;
    found->maxDynamicSharedSizeBytes = 232448;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
    return *blocks = 2, cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void*, int, size_t, unsigned) {
    return *blocks = 2, cudaSuccess;
}
}
