"""Models and tokenizers of Hugging Face that are saved to folders and loaded again: in every form, and dispatched."""

import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import accelerate
import diffusers
import peft
import torch
import transformers as hf
from common import filled, numbers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

hf.logging.set_verbosity_error()
hf.utils.logging.disable_progress_bar()
TEXT = ["the cat sat on the mat", "a dog ran in the park", "the dog and the cat sat", "a mat in the park"]
tokens = numbers(2, 6, below=16)
small = {"vocab_size": 16, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def words() -> hf.PreTrainedTokenizerFast:
    """A tokenizer that knows the words of the text."""
    made = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(TEXT, trainers.WordLevelTrainer(special_tokens=["[PAD]", "[UNK]", "[MASK]"]))
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]", mask_token="[MASK]")


def llama() -> hf.LlamaForCausalLM:
    """A small model, with weights of its own choice."""
    return hf.LlamaForCausalLM(hf.LlamaConfig(**small, num_key_value_heads=2, pad_token_id=0))


def forms(folder: str) -> None:
    """The same model from one file, from several, of pickled weights, in another dtype, mapped to devices."""
    filled(llama()).save_pretrained(f"{folder}/whole")
    filled(llama()).save_pretrained(f"{folder}/shards", max_shard_size="20kB")
    print("files", len(os.listdir(f"{folder}/whole")), len(os.listdir(f"{folder}/shards")))
    for kept, options in (
        ("whole", {}), ("shards", {}), ("whole", {"dtype": torch.float64}), ("whole", {"low_cpu_mem_usage": True}),
        ("whole", {"device_map": "cpu"}), ("shards", {"device_map": "auto"}),
    ):  # fmt: skip
        model = hf.AutoModelForCausalLM.from_pretrained(f"{folder}/{kept}", **options).eval()
        print(kept, model.dtype, *model(tokens).logits[0, 0].tolist())
        print("generated", *model.generate(tokens[:, :3], max_new_tokens=5, do_sample=False).flatten().tolist())
    torch.save(model.state_dict(), f"{folder}/weights.bin")
    with torch.device("meta"):
        empty = llama()
    empty.load_state_dict(torch.load(f"{folder}/weights.bin", map_location="meta"), assign=True)
    print("meta", *sorted({p.device.type for p in empty.parameters()}), sum(p.numel() for p in empty.parameters()))


def dispatched(folder: str) -> None:
    """Models without memory, which accelerate fills: as a whole, layer by layer, from files that stay on disk."""
    filled(llama()).save_pretrained(folder)
    parts = {"model.embed_tokens": "cpu", "model.layers.0": "cpu", "model.layers.1": "disk", "model.norm": "cpu",
             "model.rotary_emb": "cpu", "lm_head": "cpu"}  # fmt: skip
    for name, device_map in (("auto", "auto"), ("disk", parts)):
        with accelerate.init_empty_weights():
            model = llama()
        print("empty", *sorted({p.device.type for p in model.parameters()}))
        model = accelerate.load_checkpoint_and_dispatch(model, folder, device_map, offload_folder=f"{folder}/off")
        print(name, *model.eval()(tokens).logits[0, 0].tolist(), *sorted({p.device.type for p in model.parameters()}))


def pipelines(folder: str) -> None:
    """Tasks on text, with a tokenizer made here."""
    kinds = {"text-generation": llama(), "fill-mask": hf.BertForMaskedLM(hf.BertConfig(**small)),
             "zero-shot-classification": hf.BertForSequenceClassification(hf.BertConfig(**small, num_labels=3))}
    for kind, model in kinds.items():
        filled(model).save_pretrained(folder)
        words().save_pretrained(folder)
        task = hf.pipeline(kind, model=folder)
        if kind == "text-generation":
            print(kind, task("the cat", max_new_tokens=5, do_sample=False)[0]["generated_text"])
        elif kind == "fill-mask":
            print(kind, *[word for found in task("the [MASK] sat", top_k=3) for word in found.values()])
        else:
            found = task("the cat", ["dog", "mat"])
            print(kind, *found["labels"], *found["scores"])


def resumed(folder: str) -> None:
    """Training that goes on from a checkpoint gets where it would have got."""
    row = {"input_ids": tokens[0], "labels": tokens[0]}

    def trainer() -> hf.Trainer:
        options = hf.TrainingArguments(folder, max_steps=4, save_steps=2, report_to=[], disable_tqdm=True,
                                       learning_rate=1e-2, use_cpu=True, logging_strategy="no")  # fmt: skip
        made = hf.Trainer(filled(llama()), options, train_dataset=[row] * 64, data_collator=hf.default_data_collator)
        made.remove_callback(hf.PrinterCallback)
        return made

    whole, rest = trainer(), trainer()
    print("trained", whole.train().training_loss)
    rest.train(resume_from_checkpoint=f"{folder}/checkpoint-2")
    ends = [list(t.model.state_dict().values()) for t in (whole, rest)]
    print("resumed", rest.state.global_step, all(map(torch.equal, *ends)))


def others(folder: str) -> None:
    """A network of diffusers, and weights that peft adds."""
    made = filled(diffusers.UNet2DModel(
        sample_size=8, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4, attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ))  # fmt: skip
    diffusers.DDPMPipeline(made, diffusers.DDPMScheduler(num_train_timesteps=10)).save_pretrained(folder)
    found = diffusers.DDPMPipeline.from_pretrained(folder).unet.eval()
    print("UNet", *found(numbers(1, 3, 8, 8), 3).sample[0, 0, 0].tolist())
    adapted = peft.get_peft_model(filled(llama()), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    filled(adapted, 3)
    weights = adapted.get_base_model().state_dict()
    base = {k.replace(".base_layer", ""): v for k, v in weights.items() if "lora" not in k}
    adapted.save_pretrained(f"{folder}/lora")
    for options in ({}, {"low_cpu_mem_usage": True}):
        model = llama()
        model.load_state_dict(base)
        loaded = peft.PeftModel.from_pretrained(model, f"{folder}/lora", **options).eval()
        print("LoRA", *loaded(tokens).logits[0, 0].tolist())
    print("merged", *loaded.merge_and_unload()(tokens).logits[0, 0].tolist())


for program in (forms, dispatched, pipelines, resumed, others):
    with tempfile.TemporaryDirectory() as place:
        program(place)
