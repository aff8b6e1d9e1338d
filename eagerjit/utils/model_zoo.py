"""Loading weights under the older name, `load_url`."""

from eagerjit.hub import __getattr__ as __getattr__  # for tqdm
from eagerjit.hub import load_state_dict_from_url

__all__ = ["load_state_dict_from_url", "load_url"]

load_url = load_state_dict_from_url
