// cuDNN on the null device: graphs of operations by its backend interface (convolutions, and what a
// framework fuses), and batch-norm by its older one.

#include <cudnn.h>

#include <memory>

#include "libraries.h"

using namespace null_device;

struct cudnnContext {
    cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
    cudnnDataType_t type;
};
struct cudnnActivationStruct {};

namespace {

constexpr cudnnStatus_t DONE = CUDNN_STATUS_SUCCESS;

// A descriptor of the backend interface is its kind, its numbers, and descriptors in it.
struct Descriptor;
using Shared = std::shared_ptr<Descriptor>;
struct Descriptor {
    cudnnBackendDescriptorType_t kind;
    std::map<int, std::vector<int64_t>> numbers;
    std::map<int, std::vector<Shared>> parts;

    Shared part(int name) const {
        auto found = parts.find(name);
        return found == parts.end() || found->second.empty() ? nullptr : found->second[0];
    }
};
Shared& shared(void* handle) { return *static_cast<Shared*>(handle); }

size_t width_of(cudnnBackendAttributeType_t type) {
    switch (type) {
        case CUDNN_TYPE_INT64:
        case CUDNN_TYPE_DOUBLE:
        case CUDNN_TYPE_VOID_PTR:
        case CUDNN_TYPE_HANDLE: return 8;
        case CUDNN_TYPE_BOOLEAN:
        case CUDNN_TYPE_CHAR: return 1;
        default: return 4;  // enumerations, int32 and float
    }
}

const char* name_of(cudnnDataType_t type) {
    switch (type) {
        case CUDNN_DATA_FLOAT: return "f32";
        case CUDNN_DATA_HALF: return "f16";
        case CUDNN_DATA_BFLOAT16: return "bf16";
        case CUDNN_DATA_DOUBLE: return "f64";
        default: return "other";
    }
}

struct Tensor {
    std::string type = "other";
    std::vector<int64_t> sides, strides;

    explicit Tensor(const Shared& described) {
        if (!described) return;
        auto& numbers = described->numbers;
        if (!numbers[CUDNN_ATTR_TENSOR_DATA_TYPE].empty())
            type = name_of(cudnnDataType_t(numbers[CUDNN_ATTR_TENSOR_DATA_TYPE][0]));
        sides = numbers[CUDNN_ATTR_TENSOR_DIMENSIONS];
        strides = numbers[CUDNN_ATTR_TENSOR_STRIDES];
    }
    // Whether channels lie apart, as they do in NCHW. Of one channel or one place, both are true.
    bool is_channels_first() const {
        double places = 1;
        for (size_t i = 2; i < sides.size(); i++) places *= sides[i];
        return sides.size() > 2 && sides[1] > 1 && places > 1 && strides[1] != 1;
    }
};

// A convolution or one of its gradients: the attributes of its images, its kernel and its result.
struct Convolution {
    const char* what;
    int images, kernel, result;
};
const std::map<int, Convolution> CONVOLUTIONS = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     {"forward", CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     {"data", CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     {"filter", CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}},
};

void convolved(
    cudaStream_t stream, const Convolution& kind, const Descriptor& operation, bool is_tf32) {
    Tensor images(operation.part(kind.images)), kernel(operation.part(kind.kernel)),
        result(operation.part(kind.result));
    // for each place of the result, a kernel of the channels of its group
    double flops = 2;
    for (int64_t side : result.sides) flops *= side;
    for (size_t i = 1; i < kernel.sides.size(); i++) flops *= kernel.sides[i];
    bool first = images.is_channels_first() || kernel.is_channels_first() ||
                 result.is_channels_first();
    const Tensor& left = kind.what[0] == 'd' ? result : images;
    const Tensor& right = kind.what[0] == 'f' && kind.what[1] == 'i' ? result : kernel;
    const Tensor& made = kind.what[0] == 'd' ? images : right.type == result.type ? kernel : result;
    product(
        stream, std::string("convolution-") + kind.what, left.type, right.type, made.type, is_tf32,
        first ? "NCHW" : "NHWC", flops);
}

// What an execution plan was made for: its operations, and whether its engine rounds float32.
void executed(cudaStream_t stream, const Descriptor& plan) {
    Shared configuration = plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    Shared engine = configuration ? configuration->part(CUDNN_ATTR_ENGINECFG_ENGINE) : nullptr;
    Shared graph = engine ? engine->part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH) : nullptr;
    bool is_tf32 = engine && !engine->numbers[CUDNN_ATTR_ENGINE_NUMERICAL_NOTE].empty();
    if (!graph) return told(stream, "cudnn", "a plan of no graph", A_KERNEL);
    std::string kinds;
    for (const Shared& each : graph->parts[CUDNN_ATTR_OPERATIONGRAPH_OPS]) {
        auto found = CONVOLUTIONS.find(each->kind);
        if (found != CONVOLUTIONS.end()) return convolved(stream, found->second, *each, is_tf32);
        kinds += " " + std::to_string(each->kind);
    }
    told(stream, "cudnn", "graph of operations" + kinds, A_KERNEL);
}

// Two engines for each graph: one on tensor cores, which rounds float32 to TF32, and one that does
// not. So it shows what a framework filters, and autotunes.
std::vector<Shared> engines_for(const Shared& graph) {
    std::vector<Shared> configurations;
    for (bool on_tensor_cores : {true, false}) {
        auto engine = std::make_shared<Descriptor>();
        engine->kind = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
        engine->parts[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = {graph};
        engine->numbers[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = {on_tensor_cores ? 1 : 2};
        if (on_tensor_cores)
            engine->numbers[CUDNN_ATTR_ENGINE_NUMERICAL_NOTE] = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
        auto configuration = std::make_shared<Descriptor>();
        configuration->kind = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
        configuration->parts[CUDNN_ATTR_ENGINECFG_ENGINE] = {engine};
        configurations.push_back(configuration);
    }
    return configurations;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return *handle = new cudnnContext, DONE; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    return handle->stream = stream, DONE;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
    return *stream = handle->stream, DONE;
}
size_t cudnnGetVersion() { return CUDNN_VERSION; }
cudnnStatus_t cudnnGetProperty(libraryPropertyType property, int* value) {
    const int versions[] = {CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL};
    return *value = versions[property], DONE;
}
size_t cudnnGetCudartVersion() { return CUDART_VERSION; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "the null device does not answer this"; }
void cudnnGetLastErrorString(char* text, size_t length) { snprintf(text, length, "unanswered"); }

// ---- the backend interface

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind, void** handle) {
    auto made = std::make_shared<Descriptor>();
    made->kind = kind;
    *handle = new Shared(made);
    return DONE;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(void* handle) {
    return delete static_cast<Shared*>(handle), DONE;
}
cudnnStatus_t cudnnBackendFinalize(void* handle) {
    Descriptor& own = *shared(handle);
    if (own.kind == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        own.parts[CUDNN_ATTR_ENGINEHEUR_RESULTS] =
            engines_for(own.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
    return DONE;
}
cudnnStatus_t cudnnBackendSetAttribute(
    void* handle, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
    const void* values) {
    Descriptor& own = *shared(handle);
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        auto& parts = own.parts[name];
        parts.clear();
        for (int64_t i = 0; i < count; i++)
            parts.push_back(shared(static_cast<void* const*>(values)[i]));
        return DONE;
    }
    auto& numbers = own.numbers[name];
    numbers.clear();
    for (int64_t i = 0; i < count; i++) {
        const char* at = static_cast<const char*>(values) + i * width_of(type);
        switch (width_of(type)) {
            case 8: numbers.push_back(*reinterpret_cast<const int64_t*>(at)); break;
            case 4: numbers.push_back(*reinterpret_cast<const int32_t*>(at)); break;
            default: numbers.push_back(*at);
        }
    }
    return DONE;
}
// Found parts are given into descriptors that the caller made for them.
cudnnStatus_t cudnnBackendGetAttribute(
    void* const handle, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
    int64_t asked, int64_t* count, void* values) {
    Descriptor& own = *shared(handle);
    int64_t known = 0;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        auto& parts = own.parts[name];
        known = parts.size();
        for (int64_t i = 0; values && i < std::min(asked, known); i++)
            shared(static_cast<void**>(values)[i]) = parts[i];
    } else {
        auto& numbers = own.numbers[name];
        // a plan's workspace is of no size: how much cuDNN would take, a card alone knows
        if (numbers.empty() && type == CUDNN_TYPE_INT64) numbers = {0};
        known = numbers.size();
        for (int64_t i = 0; values && i < std::min(asked, known); i++) {
            char* at = static_cast<char*>(values) + i * width_of(type);
            switch (width_of(type)) {
                case 8: *reinterpret_cast<int64_t*>(at) = numbers[i]; break;
                case 4: *reinterpret_cast<int32_t*>(at) = numbers[i]; break;
                default: *at = numbers[i];
            }
        }
    }
    if (count) *count = values ? std::min(asked, known) : known;
    return DONE;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, void* plan, void*) {
    return executed(handle->stream, *shared(plan)), DONE;
}

// ---- batch-norm

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
    return *tensor = new cudnnTensorStruct, DONE;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
    return delete tensor, DONE;
}
cudnnStatus_t cudnnSetTensorNdDescriptor(
    cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int, const int*, const int*) {
    return tensor->type = type, DONE;
}
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* activation) {
    return *activation = new cudnnActivationStruct, DONE;
}
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activation) {
    return delete activation, DONE;
}
cudnnStatus_t cudnnSetActivationDescriptor(
    cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnNanPropagation_t, double) {
    return DONE;
}
cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnActivationDescriptor_t, size_t* bytes) {
    return *bytes = 0, DONE;
}
cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnActivationDescriptor_t, size_t* bytes) {
    return *bytes = 0, DONE;
}
cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnActivationDescriptor_t,
    const cudnnTensorDescriptor_t, size_t* bytes) {
    return *bytes = 0, DONE;
}
cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const void*, const void*,
    const cudnnTensorDescriptor_t images, const void*, const cudnnTensorDescriptor_t, const void*,
    const cudnnTensorDescriptor_t, void*, const cudnnTensorDescriptor_t, const void*, const void*,
    double, void*, void*, double, void*, void*, cudnnActivationDescriptor_t, void*, size_t, void*,
    size_t) {
    told(handle->stream, "cudnn", std::string("batch-norm forward ") + name_of(images->type),
         A_KERNEL);
    return DONE;
}
cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const void*, const void*,
    const void*, const void*, const cudnnTensorDescriptor_t images, const void*,
    const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t, const void*,
    const cudnnTensorDescriptor_t, void*, const cudnnTensorDescriptor_t, void*,
    const cudnnTensorDescriptor_t, const void*, const void*, void*, void*, double, const void*,
    const void*, cudnnActivationDescriptor_t, void*, size_t, void*, size_t) {
    told(handle->stream, "cudnn", std::string("batch-norm backward ") + name_of(images->type),
         A_KERNEL);
    return DONE;
}
cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t, const void*, const void*,
    const cudnnTensorDescriptor_t images, const void*, const cudnnTensorDescriptor_t, void*,
    const cudnnTensorDescriptor_t, const void*, const void*, const void*, const void*, double) {
    told(handle->stream, "cudnn", std::string("batch-norm inference ") + name_of(images->type),
         A_KERNEL);
    return DONE;
}
}
