// NCCL on the null device. There is one process, which is told that it is one rank of several:
// exchanges are written down, and other ranks have what this one has.

#include <nccl.h>

#include <cstring>

#include "device.h"

using namespace null_device;

struct ncclComm {
    int ranks, rank;
};

namespace {

constexpr ncclResult_t DONE = ncclSuccess;

struct Type {
    const char* name;
    size_t bytes;
};
Type type_of(ncclDataType_t type) {
    switch (type) {
        case ncclFloat32: return {"f32", 4};
        case ncclFloat64: return {"f64", 8};
        case ncclFloat16: return {"f16", 2};
        case ncclBfloat16: return {"bf16", 2};
        case ncclInt64: return {"s64", 8};
        case ncclInt32: return {"s32", 4};
        default: return {"other", 1};
    }
}

// Bytes are those of the whole array: of what is gathered, and of what is summed.
ncclResult_t exchanged(const char* kind, ncclDataType_t type, size_t count, cudaStream_t stream) {
    size_t bytes = count * type_of(type).bytes;
    std::string text = std::string(kind) + " " + type_of(type).name + " " + std::to_string(bytes);
    return told(stream, "exchange", text, A_KERNEL), DONE;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) { return *version = NCCL_VERSION_CODE, DONE; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return memset(id, 7, sizeof *id), DONE; }
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId, int rank) {
    return *comm = new ncclComm{ranks, rank}, DONE;
}
ncclResult_t ncclCommInitRankConfig(
    ncclComm_t* comm, int ranks, ncclUniqueId, int rank, ncclConfig_t*) {
    return *comm = new ncclComm{ranks, rank}, DONE;
}
ncclResult_t ncclCommInitRankScalable(
    ncclComm_t* comm, int ranks, int rank, int, ncclUniqueId*, ncclConfig_t*) {
    return *comm = new ncclComm{ranks, rank}, DONE;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* ranks) {
    return *ranks = comm->ranks, DONE;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) { return *rank = comm->rank, DONE; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) { return *error = DONE, DONE; }
ncclResult_t ncclCommFinalize(ncclComm_t) { return DONE; }
ncclResult_t ncclCommDestroy(ncclComm_t) { return DONE; }
ncclResult_t ncclCommAbort(ncclComm_t) { return DONE; }
ncclResult_t ncclGroupStart() { return DONE; }
ncclResult_t ncclGroupEnd() { return DONE; }
const char* ncclGetErrorString(ncclResult_t) { return "the null device does not answer this"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclAllReduce(
    const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t, ncclComm_t,
    cudaStream_t stream) {
    return exchanged("all-reduce", type, count, stream);
}
ncclResult_t ncclReduceScatter(
    const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
    cudaStream_t stream) {
    return exchanged("reduce-scatter", type, count * comm->ranks, stream);
}
ncclResult_t ncclBroadcast(
    const void*, void*, size_t count, ncclDataType_t type, int, ncclComm_t, cudaStream_t stream) {
    return exchanged("broadcast", type, count, stream);
}
ncclResult_t ncclBcast(
    void*, size_t count, ncclDataType_t type, int, ncclComm_t, cudaStream_t stream) {
    return exchanged("broadcast", type, count, stream);
}
ncclResult_t ncclReduce(
    const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t, int, ncclComm_t,
    cudaStream_t stream) {
    return exchanged("reduce", type, count, stream);
}
ncclResult_t ncclAlltoAll(
    const void*, void*, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
    return exchanged("all-to-all", type, count * comm->ranks, stream);
}
ncclResult_t ncclAllGather(
    const void* own, void* all, size_t count, ncclDataType_t type, ncclComm_t comm,
    cudaStream_t stream) {
    constexpr size_t SMALL = 65536;  // sizes that ranks compare; larger arrays no host reads
    size_t bytes = count * type_of(type).bytes;
    for (int rank = 0; bytes < SMALL && rank < comm->ranks; rank++)
        memmove(static_cast<char*>(all) + rank * bytes, own, bytes);
    return exchanged("all-gather", type, count * comm->ranks, stream);
}
ncclResult_t ncclSend(
    const void*, size_t count, ncclDataType_t type, int, ncclComm_t, cudaStream_t stream) {
    return exchanged("send", type, count, stream);
}
ncclResult_t ncclRecv(
    void*, size_t count, ncclDataType_t type, int, ncclComm_t, cudaStream_t stream) {
    return exchanged("receive", type, count, stream);
}
}
