"""Hugging Face's diffusers and peft: a denoising network, its schedulers, an autoencoder, and adapters of a Llama."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import diffusers
import peft
import torch
import transformers as hf
from common import filled, numbers, train

blocks = {"block_out_channels": (8, 16), "norm_num_groups": 4}
network = filled(
    diffusers.UNet2DModel(
        sample_size=8, layers_per_block=1, **blocks,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
)  # fmt: skip
images, noise, times = numbers(2, 3, 8, 8), numbers(2, 3, 8, 8, seed=2), torch.tensor([3, 70])
noisy = diffusers.DDPMScheduler(num_train_timesteps=100).add_noise(images, noise, times)
train("UNet", network, lambda: (network(noisy, times).sample - noise).square().mean())

for kind in ("DDIM", "PNDM", "EulerDiscrete", "DPMSolverMultistep"):
    scheduler = getattr(diffusers, f"{kind}Scheduler")(num_train_timesteps=100)
    scheduler.set_timesteps(5)
    sample = numbers(1, 3, 8, 8) * scheduler.init_noise_sigma
    with torch.no_grad():
        for time in scheduler.timesteps:
            predicted = 0.1 * network(scheduler.scale_model_input(sample, time), time).sample
            sample = scheduler.step(predicted, time, sample).prev_sample
    print(kind, *sample.flatten()[:8].tolist())

coder = filled(
    diffusers.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, **blocks
    )
)


def reconstruction() -> torch.Tensor:
    return (coder.decode(coder.encode(images).latent_dist.mode()).sample - images).square().mean()


train("AutoencoderKL", coder, reconstruction)

tokens = numbers(2, 10, below=50)
size = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
for name, kind in (("LoRA", {}), ("DoRA", {"use_dora": True})):
    settings = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], **kind)
    model = filled(peft.get_peft_model(hf.LlamaForCausalLM(hf.LlamaConfig(**size)), settings))
    train(name, model, lambda model=model: model(input_ids=tokens, labels=tokens).loss)
