// cuBLAS and cuBLASLt on the null device: products are written down with their types and sizes.

#include <cublasLt.h>
#include <cublas_v2.h>

#include "libraries.h"

using namespace null_device;

struct cublasContext {
    cudaStream_t stream = nullptr;
    cublasMath_t mode = CUBLAS_DEFAULT_MATH;
    cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
};

namespace {

constexpr cublasStatus_t DONE = CUBLAS_STATUS_SUCCESS;

cublasStatus_t multiplied(
    cublasHandle_t handle, cudaDataType left, cudaDataType right, cudaDataType result, double m,
    double n, double k, double count, bool is_tf32) {
    is_tf32 = is_tf32 || (handle->mode & CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_TF32_TENSOR_OP_MATH;
    product(
        handle->stream, "gemm", type_name(left), type_name(right), type_name(result), is_tf32, "-",
        2 * m * n * k * count);
    return DONE;
}

bool may_round(cublasComputeType_t type) {
    return type == CUBLAS_COMPUTE_32F_FAST_TF32 || type == CUBLAS_COMPUTE_32F_FAST_16F ||
           type == CUBLAS_COMPUTE_32F_FAST_16BF;
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
    return *handle = new cublasContext, DONE;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) { return delete handle, DONE; }
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    return handle->stream = stream, DONE;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) { return DONE; }
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t, int) { return DONE; }
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    return handle->mode = mode, DONE;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
    return *mode = handle->mode, DONE;
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
    return handle->pointers = mode, DONE;
}
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
    return *mode = handle->pointers, DONE;
}

cublasStatus_t cublasGemmEx(
    cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n, int k, const void*,
    const void*, cudaDataType left, int, const void*, cudaDataType right, int, const void*, void*,
    cudaDataType result, int, cublasComputeType_t compute, cublasGemmAlgo_t) {
    return multiplied(handle, left, right, result, m, n, k, 1, may_round(compute));
}
cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n, int k, const void*,
    const void*, cudaDataType left, int, long long, const void*, cudaDataType right, int, long long,
    const void*, void*, cudaDataType result, int, long long, int count,
    cublasComputeType_t compute, cublasGemmAlgo_t) {
    return multiplied(handle, left, right, result, m, n, k, count, may_round(compute));
}
cublasStatus_t cublasSgemm_v2(
    cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n, int k, const float*,
    const float*, int, const float*, int, const float*, float*, int) {
    return multiplied(handle, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, m, n, k, 1, false);
}
cublasStatus_t cublasSgemmEx(
    cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n, int k, const float*,
    const void*, cudaDataType left, int, const void*, cudaDataType right, int, const float*, void*,
    cudaDataType result, int) {
    return multiplied(handle, left, right, result, m, n, k, 1, false);
}
cublasStatus_t cublasSgemmStridedBatched(
    cublasHandle_t handle, cublasOperation_t, cublasOperation_t, int m, int n, int k, const float*,
    const float*, int, long long, const float*, int, long long, const float*, float*, int,
    long long, int count) {
    return multiplied(handle, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, m, n, k, count, false);
}
cublasStatus_t cublasSgemv_v2(
    cublasHandle_t handle, cublasOperation_t, int m, int n, const float*, const float*, int,
    const float*, int, const float*, float*, int) {
    return multiplied(handle, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, m, n, 1, 1, false);
}

// ---- cuBLASLt

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
cublasStatus_t cublasLtMatrixLayoutCreate(
    cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t) {
    // its type, rows, columns and count
    *layout = new cublasLtMatrixLayoutOpaque_t{{static_cast<uint64_t>(type), rows, columns, 1}};
    return DONE;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name, const void* value,
    size_t) {
    if (name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        layout->data[3] = *static_cast<const int32_t*>(value);
    return DONE;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    return delete layout, DONE;
}
cublasStatus_t cublasLtMatmulDescCreate(
    cublasLtMatmulDesc_t* product, cublasComputeType_t compute, cudaDataType_t) {
    // its type, and how its first factor is taken
    *product = new cublasLtMatmulDescOpaque_t{{static_cast<uint64_t>(compute), CUBLAS_OP_N}};
    return DONE;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t name, const void* value, size_t) {
    if (name == CUBLASLT_MATMUL_DESC_TRANSA)
        product->data[1] = *static_cast<const int32_t*>(value);
    return DONE;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
    return delete product, DONE;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
    return *preference = new cublasLtMatmulPreferenceOpaque_t{}, DONE;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void*, size_t) {
    return DONE;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return delete preference, DONE;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
    cublasLtMatmulHeuristicResult_t* results, int* count) {
    results[0] = {};
    *count = 1;
    return DONE;
}
cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void*, const void*,
    cublasLtMatrixLayout_t left, const void*, cublasLtMatrixLayout_t right, const void*,
    const void*, cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t result,
    const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream) {
    auto type = [](cublasLtMatrixLayout_t each) {
        return type_name(static_cast<cudaDataType>(each->data[0]));
    };
    double summed = left->data[desc->data[1] == CUBLAS_OP_N ? 2 : 1];
    double flops = 2.0 * result->data[1] * result->data[2] * summed * result->data[3];
    bool is_tf32 = may_round(static_cast<cublasComputeType_t>(desc->data[0]));
    product(stream, "gemm", type(left), type(right), type(result), is_tf32, "-", flops);
    return DONE;
}
}
