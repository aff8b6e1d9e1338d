"""What a worker process finds as torch: eagerjit, installed in its place."""

from eagerjit import standin

standin.install()
