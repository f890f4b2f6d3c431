// How matrix products and convolutions stand in the null device's log.
#pragma once

#include <library_types.h>

#include "device.h"

namespace null_device {

// A type of cuBLAS's as the log names it.
inline const char* type_name(cudaDataType type) {
    switch (type) {
        case CUDA_R_32F: return "f32";
        case CUDA_R_16F: return "f16";
        case CUDA_R_16BF: return "bf16";
        case CUDA_R_64F: return "f64";
        case CUDA_R_8I: return "s8";
        default: return "other";
    }
}

// A product: what it is, the types of its factors and of its result, whether float32 is rounded to
// TF32 ("exact", "tf32"; of other types "-"), the order of a convolution's sides, and its FLOPs.
// One that may round is quicker by the device's clock, as autotuning takes the quicker one.
inline void product(
    cudaStream_t stream, const std::string& what, const std::string& left, const std::string& right,
    const std::string& result, bool is_tf32, const std::string& layout, double flops) {
    std::string rounding = left != "f32" ? "-" : is_tf32 ? "tf32" : "exact";
    std::string text = what + " " + left + " " + right + " " + result + " " + rounding + " " +
                       layout + " " + std::to_string(static_cast<long long>(flops));
    told(stream, "product", text, rounding == "exact" ? 4 * A_KERNEL : 2 * A_KERNEL);
}

}  // namespace null_device
