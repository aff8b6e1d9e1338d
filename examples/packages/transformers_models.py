"""Hugging Face's transformers: small models with weights of our own, trained and sampled from."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers as hf
from common import filled, numbers, train

tokens = numbers(2, 10, below=50)
small = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
gpt = {"vocab_size": 50, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 4}
still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
MODELS = {
    "GPT-2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**gpt, **still)),
    "Llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**small, num_key_value_heads=2)),
    "Qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**small, num_key_value_heads=2)),
    "BERT": lambda: hf.BertForMaskedLM(
        hf.BertConfig(**small, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    ),
    "T5": lambda: hf.T5ForConditionalGeneration(
        hf.T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0,
                    decoder_start_token_id=0)
    ),
}  # fmt: skip
for name, make in MODELS.items():
    model = filled(make()).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train(name, model, lambda model=model: model(input_ids=tokens, labels=tokens).loss, optimizer)

model = filled(MODELS["GPT-2"]()).eval()
print("generated", *model.generate(tokens[:, :4], max_new_tokens=6, do_sample=False, pad_token_id=0).flatten().tolist())

images = hf.ViTConfig(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8
)
model = filled(hf.ViTForImageClassification(images)).eval()
print("ViT", *model(numbers(2, 3, 32, 32)).logits.flatten().tolist())
