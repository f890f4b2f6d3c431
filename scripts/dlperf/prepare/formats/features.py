"""A sample as a protocol buffer: maps of named features, as TensorFlow and OneFlow define them.

Both frameworks have the same message except for the numbers and types of its lists
(tensorflow/core/example/feature.proto, oneflow/core/record/record.proto); `message` makes either
class from its table of lists. Keys are serialised in sorted order, so that the bytes are the same
on every machine.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from dlperf.loaders import DataError

Field = descriptor_pb2.FieldDescriptorProto
TYPES = {
    "bytes_list": Field.TYPE_BYTES,
    "float_list": Field.TYPE_FLOAT,
    "double_list": Field.TYPE_DOUBLE,
    "int32_list": Field.TYPE_INT32,
    "int64_list": Field.TYPE_INT64,
}


def features(package: str, lists: Mapping[str, int]) -> type:
    """The class of `map<string, Feature> feature = 1`. `lists`: a kind of list -> its number."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}/feature.proto", package=package, syntax="proto3"
    )
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for name, number in lists.items():
        values = file.message_type.add(name=name)
        values.field.add(
            name="value", number=1, label=Field.LABEL_REPEATED, type=TYPES[name], json_name="value"
        )
        feature.field.add(
            name=name,
            number=number,
            label=Field.LABEL_OPTIONAL,
            type=Field.TYPE_MESSAGE,
            type_name=f".{package}.{name}",
            oneof_index=0,
        )
    whole = file.message_type.add(name="Features")
    entry = whole.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=Field.LABEL_OPTIONAL, type=Field.TYPE_STRING)
    entry.field.add(
        name="value",
        number=2,
        label=Field.LABEL_OPTIONAL,
        type=Field.TYPE_MESSAGE,
        type_name=f".{package}.Feature",
    )
    whole.field.add(
        name="feature",
        number=1,
        label=Field.LABEL_REPEATED,
        type=Field.TYPE_MESSAGE,
        type_name=f".{package}.Features.FeatureEntry",
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Features"))


def encode(message: type, sample: Mapping[str, Any], integers: str) -> bytes:
    """`integers` is the kind of list that holds whole numbers."""
    record = message()
    for name, value in sample.items():
        feature = record.feature[name]
        if isinstance(value, bytes):
            feature.bytes_list.value.append(value)
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
            feature.float_list.value.extend(value.tolist())
        else:
            values = value.tolist() if isinstance(value, np.ndarray) else [value]
            getattr(feature, integers).value.extend(values)
    return record.SerializeToString(deterministic=True)


def decode(message: type, record: bytes, where: str) -> dict[str, Any]:
    """The sample again; a list of one number is an int. Raises DataError naming `where`."""
    try:
        features = message.FromString(record).feature
    except DecodeError as error:
        raise DataError(f"{where}: not a record of features ({error})") from None
    return {name: _value(features[name]) for name in sorted(features)}


def _value(feature: Any) -> Any:
    kind = feature.WhichOneof("kind")
    values = getattr(feature, kind).value if kind else [b""]
    if kind in (None, "bytes_list"):
        return values[0]
    if kind in ("float_list", "double_list"):
        return np.array(values, np.float32)
    return values[0] if len(values) == 1 else np.array(values, np.int64)
