from typing import NamedTuple
import numpy as np
from dlperf.loaders.manifest import sha256_of_arrays
from dlperf.loaders.prefetch import Constant, check
class Batch(NamedTuple):
    tokens: np.ndarray
    labels: np.ndarray
def open_batches(input, layout="", prefetch=None):
    class Many:
        constant=False; on_device=False; noise=None; waited_seconds=0.0; parity={}
        def __init__(s): s.step=0; s.first_batch_sha256=None
        def next(s):
            rows=[]
            for r in range(input.batch_size):
                i=(s.step*input.parts+input.part)*input.batch_size+r
                rows.append(np.random.RandomState([input.seed,i]).randint(0,2048,input.dimensions["sequence_length"]+1))
            s.step+=1
            a=np.array(rows,np.int32); b=Batch(a[:,:-1].copy(),a[:,1:].copy())
            if s.first_batch_sha256 is None: s.first_batch_sha256=sha256_of_arrays(b)
            return b
        def fill(s): pass
        def close(s): pass
        def known(s): return ()
    return Many()
