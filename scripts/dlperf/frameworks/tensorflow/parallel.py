"""A model split by tensors in TensorFlow 2: each rank has plain variables of its own parts.

What Megatron-LM does between the parts of a tensor group (Shoeybi et al. 2019, section 3) stands
here as methods that a model calls: `enter`, `leave`, a divided table, a divided cross-entropy. They
are TensorFlow's own collectives over a group of the workers that a strategy has joined. Not by
DTensor: in 2.21, tf.nn.sparse_softmax_cross_entropy_with_logits of scores that ranks divide is
silently 0 or not a number there, a divided variable's rows cannot be gathered, and it joins
processes in a way of its own, beside which no strategy can be.
"""

import itertools

import tensorflow as tf

from dlperf import workloads
from dlperf.contract.mesh import DATA, TENSOR
from dlperf.contract.run import Unsupported
from dlperf.frameworks import half
from dlperf.frameworks.tensorflow.process import PACK_BYTES

#: A strategy numbers its groups from 1; each of ours has a number that no other group has.
FIRST_GROUP = {TENSOR: 1 << 20, DATA: 1 << 21}
#: Ranks find each other's calls by their numbers: they trace the same calls in the same order.
_calls = itertools.count(1)


def is_split(run):
    return run.mesh.tensor > 1


def refuse(run):
    """Raise Unsupported for a split model on a GPU whose mixed precision is float16."""
    if is_split(run) and run.amp and half(run) == "float16":
        raise Unsupported("ranks of a split model do not agree on which steps overflow float16")


def parts(run):
    """Canonical name -> Part of what this rank has of each tensor that a tensor group divides."""
    if not is_split(run):
        return {}
    return {each.name: each for each in workloads.parts_of(run) if not each.is_whole}


class Group:
    """The ranks along an axis of the mesh, this one among them."""

    def __init__(self, run, axis):
        members = run.mesh.group(run.rank, axis)
        self.size, self._key = len(members), FIRST_GROUP[axis] + members[0]
        self._means = "nccl" if run.cuda else "ring"

    def _reduced(self, tensor, merge):
        if self.size == 1:
            return tensor
        return tf.raw_ops.CollectiveReduceV2(
            input=tensor,
            group_size=self.size,
            group_key=self._key,
            instance_key=next(_calls),
            ordering_token=[],
            merge_op=merge,
            final_op="Id",
            communication_hint=self._means,
        )

    def sum(self, tensor):
        """The sum of the ranks' tensors, which has no gradient."""
        return self._reduced(tensor, "Add")

    def largest(self, tensor):
        """The largest of the ranks' tensors, element by element, which has no gradient."""
        return self._reduced(tensor, "Max")


class TensorGroup(Group):
    """The ranks that one replica is split over. Of a group of one, all is as without one."""

    def __init__(self, run):
        super().__init__(run, TENSOR)
        self.index = run.coordinates.tensor
        # far from the numbers that TensorFlow gives to operators whose seed is left out
        self._seeds = itertools.count((1 + self.index) * 1000003)

    def enter(self, x):
        """What each rank has, before its own part of a product; its gradient is the ranks' sum."""
        if self.size == 1:
            return x
        return tf.custom_gradient(lambda x: (tf.identity(x), self.sum))(x)

    def leave(self, x):
        """The sum of the ranks' parts of a product; each rank has its gradient."""
        if self.size == 1:
            return x
        return tf.custom_gradient(lambda x: (self.sum(x), lambda gradient: gradient))(x)

    def own_seed(self):
        """A seed of this rank's alone, for an operator that drops what the group divides.

        None where nothing is divided. Of all else the ranks drop the same: they have one seed, and
        the same operators.
        """
        return None if self.size == 1 else next(self._seeds)

    def looked_up(self, table, ids):
        """The rows of these ids, of a table (entries / ranks, width)."""
        if self.size == 1:
            return tf.gather(table, ids)
        ids, is_own = self._own_entries(ids, table.shape[0])
        rows = tf.gather(table, ids)
        return self.leave(rows * tf.cast(is_own, rows.dtype)[..., None])

    def cross_entropies(self, scores, labels):
        """That of each label (n,) by the scores (n, entries / ranks)."""
        if self.size == 1:
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
        largest = self.largest(tf.stop_gradient(tf.reduce_max(scores, -1)))
        scores -= largest[:, None]
        labels, is_own = self._own_entries(labels, scores.shape[-1])
        hits = tf.gather(scores, labels, batch_dims=1) * tf.cast(is_own, scores.dtype)
        # both sums by one exchange
        sums, hits = tf.unstack(self.leave(tf.stack([tf.reduce_sum(tf.exp(scores), -1), hits])))
        return tf.math.log(sums) - hits

    def _own_entries(self, ids, count):
        """(ids among a rank's own `count` entries, whether each is): of others, the id is 0."""
        ids -= self.index * count
        is_own = (ids >= 0) & (ids < count)
        return tf.where(is_own, ids, 0), is_own


class Gradients:
    """What the ranks of a split model do with gradients, in the order of `variables`.

    named: canonical name -> variable of this rank.
    """

    def __init__(self, run, named, variables):
        names = {variable.ref(): name for name, variable in named.items()}
        divided = parts(run)
        self._divided = [names[variable.ref()] in divided for variable in variables]
        self._replicas, self._tensors = Group(run, DATA), Group(run, TENSOR)

    def sum_over_replicas(self, gradients):
        """Gradients summed over replicas, as many at a time as fit a pack."""
        if self._replicas.size == 1:
            return gradients
        gradients = [tf.convert_to_tensor(each) for each in gradients]
        sums, pack, size = [], [], 0
        for index, gradient in enumerate(gradients, 1):
            pack.append(gradient)
            size += gradient.shape.num_elements() * gradient.dtype.size
            if size < PACK_BYTES and index < len(gradients):
                continue
            flat = self._replicas.sum(tf.concat([tf.reshape(each, [-1]) for each in pack], 0))
            pieces = tf.split(flat, [each.shape.num_elements() for each in pack])
            sums += [tf.reshape(piece, each.shape) for piece, each in zip(pieces, pack)]
            pack, size = [], 0
        return sums

    def norm(self, gradients):
        """The norm of all gradients of the model, each value counted once."""
        squares = {True: [], False: []}
        for gradient, is_divided in zip(gradients, self._divided):
            squares[is_divided].append(tf.reduce_sum(tf.square(tf.convert_to_tensor(gradient))))
        return tf.sqrt(self._tensors.sum(tf.add_n(squares[True])) + tf.add_n(squares[False]))
