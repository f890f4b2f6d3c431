// The null device itself: its log, clock and memory. device.h says what each function is for.

#include "device.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstring>

namespace null_device {

std::recursive_mutex lock;

namespace {

FILE* log_file = nullptr;
double clock_milliseconds = 0;
std::map<uintptr_t, size_t> allocations;
size_t used = 0, peak = 0;

void write(const std::string& line) {
    if (log_file) fprintf(log_file, "%s\n", line.c_str());
}

}  // namespace

CUstream_st& stream_of(cudaStream_t handle) {
    static CUstream_st by_default{0};
    return reinterpret_cast<uintptr_t>(handle) < 16 ? by_default : *handle;
}

void told(cudaStream_t handle, const char* kind, const std::string& text, double milliseconds) {
    std::lock_guard<std::recursive_mutex> held(lock);
    CUstream_st& stream = stream_of(handle);
    std::string line = std::string(kind) + "\t" + std::to_string(stream.number) + "\t" + text;
    if (stream.graph) {
        stream.graph->lines.push_back(line);
    } else {
        clock_milliseconds += milliseconds;
        write("\t" + line);
    }
}

void replayed(int graph, const std::string& line) { write(std::to_string(graph) + "\t" + line); }

void host(const char* kind, const std::string& text) {
    std::lock_guard<std::recursive_mutex> held(lock);
    write("\t" + std::string(kind) + "\t\t" + text);
}

double now() { return clock_milliseconds; }

int unanswered(const char* function, int status) {
    host("unanswered", function);
    fprintf(stderr, "null device: %s is not answered\n", function);
    return status;
}

bool allocate(void** pointer, size_t bytes) {
    std::lock_guard<std::recursive_mutex> held(lock);
    constexpr size_t GRAIN = 512, OF_THE_CONTEXT = 600000000;
    bytes = (bytes + GRAIN - 1) / GRAIN * GRAIN;
    *pointer = nullptr;
    if (used + bytes + OF_THE_CONTEXT > MEMORY_BYTES) return false;
    if (!bytes) return true;
    int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, -1, 0);
    if (found == MAP_FAILED) return false;
    allocations[reinterpret_cast<uintptr_t>(found)] = bytes;
    used += bytes;
    if (used > peak) peak = used;
    *pointer = found;
    return true;
}

bool release(void* pointer) {
    std::lock_guard<std::recursive_mutex> held(lock);
    auto found = allocations.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == allocations.end()) return pointer == nullptr;
    munmap(pointer, found->second);
    used -= found->second;
    allocations.erase(found);
    return true;
}

bool is_on_device(const void* pointer) {
    std::lock_guard<std::recursive_mutex> held(lock);
    uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    auto behind = allocations.upper_bound(address);
    if (behind == allocations.begin()) return false;
    auto found = std::prev(behind);
    return address < found->first + found->second;
}

size_t used_bytes() { return used; }

int device_attribute(cudaDeviceAttr attribute) {
    switch (attribute) {
        case cudaDevAttrComputeCapabilityMajor: return 9;
        case cudaDevAttrComputeCapabilityMinor: return 0;
        case cudaDevAttrMultiProcessorCount: return 132;
        case cudaDevAttrWarpSize: return 32;
        case cudaDevAttrMaxThreadsPerBlock: return 1024;
        case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
        case cudaDevAttrMaxBlockDimX: return 1024;
        case cudaDevAttrMaxBlockDimY: return 1024;
        case cudaDevAttrMaxBlockDimZ: return 64;
        case cudaDevAttrMaxGridDimX: return 2147483647;
        case cudaDevAttrMaxGridDimY: return 65535;
        case cudaDevAttrMaxGridDimZ: return 65535;
        case cudaDevAttrMaxSharedMemoryPerBlock: return 49152;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: return 232448;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return 233472;
        case cudaDevAttrMaxRegistersPerBlock: return 65536;
        case cudaDevAttrMaxRegistersPerMultiprocessor: return 65536;
        case cudaDevAttrL2CacheSize: return 52428800;
        case cudaDevAttrClockRate: return 1980000;        // kHz
        case cudaDevAttrMemoryClockRate: return 2619000;  // kHz
        case cudaDevAttrGlobalMemoryBusWidth: return 5120;
        default: return 1;  // a property that the card has: concurrent kernels, a unified address …
    }
}

}  // namespace null_device

// For the process that drives the device (tests/gpu/torch_step.py).
extern "C" {

// Write the log into this file from here on; null: no more.
void null_device_log(const char* path) {
    std::lock_guard<std::recursive_mutex> held(null_device::lock);
    if (null_device::log_file) fclose(null_device::log_file);
    null_device::log_file = path ? fopen(path, "w") : nullptr;
}

// A line of the caller's own, such as where a step ends.
void null_device_mark(const char* text) { null_device::host("mark", text); }

// The most bytes that were allocated at a time since the last call.
size_t null_device_peak() {
    std::lock_guard<std::recursive_mutex> held(null_device::lock);
    size_t found = null_device::peak;
    null_device::peak = null_device::used;
    return found;
}

int null_device_unanswered(const char* function, int status) {
    return null_device::unanswered(function, status);
}
}
