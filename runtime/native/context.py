"""What native code knows about this process: addresses of classes, constants and slots, as offsets into one block.

Python fills the block (`runtime/layout.py`) after verifying every fact against live objects.
"""

from __future__ import annotations

from eagerjit.runtime import dtypes
from eagerjit.runtime.native.language import global_bytes

MAX_TENSOR_TYPES = 32
TENSOR_TYPES = 1216  # MAX_TENSOR_TYPES words
CONTEXT_BYTES = TENSOR_TYPES + 8 * MAX_TENSOR_TYPES
context = global_bytes(CONTEXT_BYTES)

MAX_NDIM = 32
N_DTYPES = len(dtypes.ALL)
N_HELD = len(dtypes.HELD)

# -- classes and constants --------------------------------------------------------------------------------------------
N_TENSOR_TYPES = 0
ARRAY_TYPE = 72
VERSION = 104  # where classes keep the number of their present state; 0: nowhere
NONE = 80
TRUE = 88
SAME_VALUE = 264  # the Python function behind EQUAL
# -- NumPy's C API ----------------------------------------------------------------------------------------------------
NEW_FROM_DESCRIPTOR = 272
SET_BASE_OBJECT = 280
MEMORY_HANDLER = 288
# -- slots of a Tensor ------------------------------------------------------------------------------------------------
TENSOR_DEFAULTS = 296  # pairs of offset and default object, one per slot but `_data`
N_TENSOR_DEFAULTS = 304
DATA = 312
NODE = 320
REQUIRES_GRAD = 328
GRAD = 336
INDEX = 96  # which of its results a node has made it
STORAGE = 344
# -- autograd ---------------------------------------------------------------------------------------------------------
NODE_TYPE = 352
NODE_DEFAULTS = 360
N_NODE_DEFAULTS = 368
NODE_OP = 376
NODE_INPUTS = 384
NODE_OUTPUT = 392
NODE_SEQUENCE = 400
NODE_VERSIONS = 408
STORAGE_TYPE = 416
STORAGE_VERSION = 424
STORAGE_SOURCE = 488
NODE_CODE = 496
NODE_OFFSET = 504
NODE_HOOKS = 112
NODE_OVERWRITTEN = 120
NODE_REPLACED = 128
HOOKS = 136  # of a Tensor
# -- compiled calls on the tape (see `connect.py`) --------------------------------------------------------------------
CALL_TYPE = 144  # the op of their nodes
CALL_DEFAULTS = 152
N_CALL_DEFAULTS = 160
CALL_BACKWARD = 168
CALL_ARGUMENTS = 176
CALL_KEPT = 184
CALL_KNOWN = 192
CALL_FREED = 200
CALL_LAST = 208
CALL_OVERWRITTEN = 216
CALL_VALUES = 8
GRADIENT_OP_TYPE = 16  # the op of nodes that are gradients of such calls: it has all slots of theirs but the first
GRADIENT_OP_DEFAULTS = 24
N_GRADIENT_OP_DEFAULTS = 32
GRADIENT_OP_CALL = 40
GRADIENT_OP_NODE = 48
GRADIENT_OP_TWICE = 56
# -- slots of our own objects, and what `run` returns for a miss ------------------------------------------------------
MISS = 448
FUNCTION_FALLBACK = 456
OPERATOR_SLOW = 464
OPERATOR_OP = 472
RECORD_NODE = 480  # the Python function that records what native code does not
# -- the user's code --------------------------------------------------------------------------------------------------
CODE_FILE = 512  # where a code object keeps the name of its file
LIBRARY_FILES = 520  # the dictionary of files met so far: whether they belong to a library
IS_LIBRARY = 528  # the Python function that fills it
# -- writes -----------------------------------------------------------------------------------------------------------
VIEW = 536  # a Tensor's slot
NOTE_WRITTEN = 544  # the Python function told of writes to what has a history
# -- views ------------------------------------------------------------------------------------------------------------
VIEW_TYPE = 552  # what a Tensor says of how it was made from its base; null where the layer above has no views
VIEW_DEFAULTS = 560
N_VIEW_DEFAULTS = 568
VIEW_BASE = 576
VIEW_OP = 584
VIEW_ARGUMENTS = 592
VIEW_TRACKED = 600
STORAGE_VIEWS = 608
REGISTER_VIEW = 616  # the Python function that adds a view to many
SHAPE_TYPE = 624  # the tuples that sizes are
ELLIPSIS = 632
VIEW_AMONG = 640
VIEW_NUMBER = 736
STORAGE_REGISTERED = 744
REFRESH_VIEW = 752  # the Python function that brings the history of a view up to date
DEVICE_TYPE = 672  # of the objects that name devices
SUBCLASSES = 680  # whether there are classes whose instances pass for plain tensors only in some threads
NO_MEMORY = 688  # what is raised where there is none for a result
OPTIONS = 664  # the dictionary of tuples of numbers met as options: one object for each
# -- answers from memory (see `remembered.py`) ------------------------------------------------------------------------
REMEMBERED_FUNCTION = 648
REMEMBERED_LEARN = 656
# -- devices (see `device.py`) ----------------------------------------------------------------------------------------
DEVICE_ARRAY_TYPE = 1152
DEVICE_ARRAY_MEMORY = 1160
DEVICE_ARRAY_ADDRESS = 1168
MEMORY_TYPE = 1176  # of memory that is given back when nobody holds it
MEMORY_BLOCK = 1184
MEMORY_DEVICE = 1192
GIVE_BACK = 1200  # the Python function for memory that native code does not keep
# -- dtypes -----------------------------------------------------------------------------------------------------------
DESCRIPTORS = 768  # one numpy descriptor per dtype code
ITEM_SIZES = 896  # bytes per dtype code
DTYPES = 1024  # the object that stands for each
# -- modes ------------------------------------------------------------------------------------------------------------
MODE_WORDS = 432
FLAGS_KEY = 440
MODULES = 696  # the dictionary of all modules
IS_DEBUGGED = 704  # the Python function that finds out whether a debugger follows the thread
GET_TRACE = 712
GET_TOOL = 720  # null before CPython 3.12
DEBUGGER = 728  # the tool that it is asked for

# -- fields of CPython and NumPy objects, verified by runtime/layout.py -----------------------------------------------
OBJECT_REFERENCES = 0  # of 32 bits at least: negative where nobody counts
OBJECT_TYPE = 8
ARRAY_DATA = 16
ARRAY_NDIM = 24
ARRAY_DIMS = 32
ARRAY_STRIDES = 40
ARRAY_BASE = 48
ARRAY_DESCRIPTOR = 56
ARRAY_FLAGS = 64
ARRAY_HANDLER = 88
FLOAT_VALUE = 16
SLICE_START = 16
SLICE_STOP = 24
SLICE_STEP = 32

CONTIGUOUS_FLAG = 0x1
OWNS_DATA_FLAG = 0x4
ALIGNED_FLAG = 0x100
WRITEABLE_FLAG = 0x400

# -- words of our own objects: they begin where a plain object ends (see `runtime/heap_types.py`) ---------------------
VECTORCALL = 16

MEMORY_PLACE = 32  # of a device's memory: its number and one

EXECUTABLE_WORDS = 16
EXECUTABLE_ARGUMENTS = 24
EXECUTABLE_LEAVES = 32
EXECUTABLE_SLOTS = 40
EXECUTABLE_OUTPUTS = 48
EXECUTABLE_OBJECTS = 56
EXECUTABLE_FUNCTIONS = 64
EXECUTABLE_EPOCHS = 72
EXECUTABLE_ERRORS = 80  # exception class, message, and the slot of the number in it (or -1)
EXECUTABLE_ARENAS = 88
EXECUTABLE_PARAMETERS = 96  # of the kernel or call that has the most
EXECUTABLE_FRAME = 104  # the frame the executable owns
EXECUTABLE_BUSY = 112  # 1 while a run uses it
EXECUTABLE_DEVICE = 120  # what is known of the device that it runs on; null: the host
EXECUTABLE_CHECKS = 128  # the Python function that gives a run words for its checks; null where it has none
EXECUTABLE_HELD = 136  # how many references a run takes at most, beside those to its results

FUNCTION_TABLE = 24  # count, then per entry: executable, arity and flags, finish (or null), plan (or null)
ENTRY_BYTES = 32
FUNCTION_SERVED = 32  # how many calls its executables have served
ARITY = 0x7FFF_FFFF
CONNECTED = 1 << 31  # finish is a Connection
SINGLE_OUTPUT = 1 << 32  # the run returns its only output as it is
WITH_ARGUMENTS = 1 << 33  # finish takes the outputs and the arguments
REPEATED = 1 << 34  # what raises is left to the fallback, which does what comes before the error
ARRAYS = 35  # from this bit on: which of the first arguments are arrays, over which tensors are made
MOST_ARRAYS = 16  # the arguments of which these bits tell

REMEMBERED_TABLE = 24

OPERATOR_TABLE = 24  # see `operators.py`
OPERATOR_RECORDS = 32
OPERATOR_REFLECTED = 40
OPERATOR_COUNT = 48  # of parameters
OPERATOR_PARAMETERS = 56  # per parameter its name and its default (or null)
OPERATOR_NUMBERS = 64  # a bit per parameter whose ints and floats are run-time inputs
OPERATOR_SHAPES = 72  # a bit per parameter that is a tuple of sizes, which are run-time inputs
OPERATOR_KIND = 80  # of a view
OPERATOR_WRITES = 88  # PLAINLY or AS_FOUND, where it writes its first argument
OPERATOR_CASTS = 104  # whether autocast converts its arguments, which Python does
OPERATOR_COPIES = 96  # a bit per parameter whose gradient reads what was written over; READS_RESULT: or the result
READS_RESULT = 1 << 62

PLAINLY, AS_FOUND = 1, 2  # writes: of memory in order, with a history too; what Python has looked at, without one

FACTS_PARTS = 16  # of an Op on the tape: PART_SHOWN or PART_WRITTEN, of its first argument
FACTS_FUSED = 24  # whether its gradient is a Program
FACTS_SAVED = 32  # a word per argument: a bit for each argument that its gradient saves, RESULTS for results
FACTS_N_SAVED = 40  # -1: nothing is known of that
FACTS_READ = 48  # the same of what its gradient computes with, whatever PyTorch saves besides
FACTS_N_READ = 56
FACTS_GRADIENTS = 64  # count, then per gradient of GRADIENT_WORDS: which arguments it is for, what to call, ...
RESULTS = 1 << 62
MOST_BITS = 62  # arguments that such a word has bits for
GRADIENT_NEEDS, GRADIENT_CALL, GRADIENT_PRESENT, GRADIENT_READS, GRADIENT_BYTES = 0, 8, 16, 24, 32

# -- Python's part in a walk backwards: functions, and what they are asked by -----------------------------------------
WALKER_KINDS = 16
WALKER_KIND_OF = 24
WALKER_FACTS_NAME = 32
WALKER_LEARN = 40
WALKER_LEARN_GRADIENT = 48
WALKER_SAVES = 56
WALKER_GRADIENTS = 64
WALKER_CHECK = 72
WALKER_FILL = 80
WALKER_BESIDE = 88
WALKER_TO_LEAF = 96
WALKER_HOOKED = 104
WALKER_LIGHTEN = 112
WALKER_USED_UP = 120
WALKER_IS_WHOLE = 128
WALKER_THROUGH_CALL = 136
WALKER_RELEASE_CALL = 144
WALKER_ADD_PART = 152
WALKER_BEGIN_PARTS = 160
WALKER_THROUGH_BOTH = 168

# -- how a compiled call gets on the tape, and its gradients (see `runtime/connections.py`) ----------------------------
CONNECTION_BACKWARD = 16
CONNECTION_KNOWN = 24
CONNECTION_INPUTS = 32  # per input of the node -1 less its place among the arguments, or the tensor that it always is
CONNECTION_N_INPUTS = 40
CONNECTION_ROOTS = 48  # which results have a gradient
CONNECTION_N_ROOTS = 56
CONNECTION_KEPT = 64  # which are kept for it
CONNECTION_N_KEPT = 72
CONNECTION_N_USER = 80  # how many the user gets; -1: the first one itself
CONNECTION_REBUILD = 88  # what makes the function's result of these; null: they are that

GRADIENTS_ALONE = 16  # count, then gradients of the node; null: none
GRADIENTS_JOINED = 24  # the same of those of the node together with its call's
GRADIENTS_HIDDEN = 32  # how many values inside the call are results of the node, behind those that have gradients
GRADIENTS_INNER = 40  # whether results depend on others

KNOWN_EXECUTABLE = 16
KNOWN_N_VALUES = 24  # how many of the values that the op was made from it takes first
KNOWN_PRESENT = 32  # the results that have a gradient
KNOWN_N_PRESENT = 40
KNOWN_OF_CALL = 48  # the same of the call that is walked through with its gradient
KNOWN_N_OF_CALL = 56
KNOWN_STARTS = 64  # per input which of those it is to whose gradients so far it adds use by use, -1 for none
KNOWN_N_STARTS = 72
KNOWN_KEPT = 80  # which of the values kept it takes
KNOWN_N_KEPT = 88
KNOWN_GIVEN = 96  # what it is given besides, as inputs are found
KNOWN_N_GIVEN = 104
KNOWN_TARGETS = 112  # per input which of its results is the gradient, NO_GRADIENT or NOT_WANTED
KNOWN_REPEATED = 120  # per input whether gradients of its uses are added to what reached it before, one by one
KNOWN_N_WANTED = 128
KNOWN_VISIT = 136  # what a walk goes through inside of the call; null for the gradient of a gradient
KNOWN_FREED = 144  # what it frees of that where no node before is gone
KNOWN_DEPENDS = 152  # whether it matters which of these are
KNOWN_ENDS = 160  # whether nothing is left to walk then
KNOWN_HISTORY = 168  # how the gradients get on the tape; null where they have no history
NOT_WANTED, NO_GRADIENT = -1, -2

HISTORY_TWICE = 16
HISTORY_KNOWN = 24
HISTORY_FLAGS = 32  # per gradient that comes in whether it needs a gradient in turn
HISTORY_HIDDEN = 40  # the results of the call's node, values inside the call among them, that are inputs too
HISTORY_N_HIDDEN = 48
HISTORY_OUTPUTS = 56  # which results of the executable have a history
HISTORY_N_OUTPUTS = 64
HISTORY_N_RESULTS = 72  # how many are gradients; the others are kept
MOST_CONNECTED = 256  # inputs of such nodes, and arguments of such gradients

EXECUTABLE_FIELDS = (
    "_words", "_n_arguments", "_n_leaves", "_n_slots", "_n_outputs", "_objects", "_functions", "_epochs", "_errors",
    "_n_arenas", "_n_parameters", "_frame", "_busy", "_device", "_checks", "_n_held",
)  # fmt: skip
FUNCTION_FIELDS = ("_vectorcall", "_table", "_n_served")
OPERATOR_FIELDS = (
    "_vectorcall", "_table", "_records", "_reflected", "_count", "_parameters", "_numbers", "_shapes",
    "_kind", "_writes", "_copies", "_casts",
)  # fmt: skip
FACTS_FIELDS = ("_parts", "_fused", "_saved", "_n_saved", "_read", "_n_read", "_gradients")
WALKER_FIELDS = (
    "kinds", "kind_of", "facts_name", "learn", "learn_gradient", "saves", "gradients", "check", "fill", "beside",
    "to_leaf", "hooked", "lighten", "used_up", "is_whole", "through_call", "release_call", "add_part",
    "begin_parts", "through_both",
)  # fmt: skip
CONNECTION_FIELDS = (
    "_backward", "_known", "_inputs", "_n_inputs", "_roots", "_n_roots", "_kept", "_n_kept", "_n_user", "_rebuild",
)  # fmt: skip
GRADIENTS_FIELDS = ("_alone", "_joined", "_hidden", "_inner")
KNOWN_FIELDS = (
    "_executable", "_n_values", "_present", "_n_present", "_of_call", "_n_of_call", "_starts", "_n_starts", "_kept",
    "_n_kept", "_given", "_n_given", "_targets", "_repeated", "_n_wanted", "_visit", "_freed", "_depends", "_ends",
    "_history",
)  # fmt: skip
HISTORY_FIELDS = ("_twice", "_known", "_flags", "_hidden", "_n_hidden", "_outputs", "_n_outputs", "_n_results")
REMEMBERED_FIELDS = ("_vectorcall", "_table")
"""The names Python gives these words, in order."""
