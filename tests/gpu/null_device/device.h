// What the parts of the null device share: its log, its streams, its clock and its memory.
//
// The null device stands where an NVIDIA H100 would. Host code is answered as a card's driver and
// libraries answer it; kernels, copies and products are written down and not done. So all that the
// host decides is as on a card, and no number is.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

// CUDA's handles, whose content is the device's own affair.
struct CUgraph_st {
    std::vector<std::string> lines;     // what a replay does, as lines of the log
    std::vector<CUstream_st*> streams;  // those that are being captured into it
};
struct CUgraphExec_st {
    int number;
    std::vector<std::string> lines;
};
struct CUstream_st {
    int number;
    CUgraph_st* graph = nullptr;  // what the stream is captured into; null: it runs
};
struct CUevent_st {
    double at = 0;                // milliseconds of the device's clock
    CUgraph_st* graph = nullptr;  // recorded while this was captured
};

namespace null_device {

// Facts of the card: tests/gpu/h100.txtpb.
constexpr char NAME[] = "NVIDIA H100 80GB HBM3";
constexpr size_t MEMORY_BYTES = 84929347584;
constexpr int DRIVER = 13000;

// What the clock goes on by for a kernel, in milliseconds; no measurement. As long as that, so that
// autotuning repeats nothing often.
constexpr double A_KERNEL = 1;

// All functions of the device may be called by several threads (autograd has one of its own).
extern std::recursive_mutex lock;

// The stream of a handle; the default stream's are 0, 1 and 2.
CUstream_st& stream_of(cudaStream_t handle);

// Write down what a stream was told to do: a line of its graph while it is captured, else of the
// log. `milliseconds` is what the clock goes on by.
void told(cudaStream_t stream, const char* kind, const std::string& text, double milliseconds);

// Write down what a replay of a graph does: a line that was captured.
void replayed(int graph, const std::string& line);

// Write down what the host did, or waited for.
void host(const char* kind, const std::string& text);

// The device's clock, in milliseconds: the sum of what it was told.
double now();

// The host waits for the device: an error where a stream is captured, as on a card.
cudaError_t wait(const char* function);

// What was asked for and is not answered here: written down, and refused with this status.
int unanswered(const char* function, int status);

int device_attribute(cudaDeviceAttr attribute);

// Memory is the host's own, taken when it is touched, so that copies and reads of it are safe.
bool allocate(void** pointer, size_t bytes);
bool release(void* pointer);
bool is_on_device(const void* pointer);
size_t used_bytes();

}  // namespace null_device
