"""The zoo: architectures of torchvision, timm and transformers, and some of bench/zoo/zoo_own.py, as different as possible.

`networks()` is the one list of them, for exporting, measuring and testing:

    network = zoo_list.networks()["swin_t"]
    module, inputs = network.build(), network.inputs(batch=1)     # inputs: a dict of tensors, in the order of arguments
    module(*inputs.values())

Weights and inputs are random with fixed seeds; nothing is downloaded. The libraries are imported when a network is built.
"""
import functools
import importlib
from typing import Callable, NamedTuple


class Network(NamedTuple):
    name: str
    kind: str
    make: Callable  # the module, with weights from PyTorch's global generator
    recipes: dict  # name of an input -> a function of the batch and a generator
    large: int = 32  # the batch that is measured beside 1

    def build(self, trained=True):
        """The module, ready for inference. Its results are tensors or tuples of these. `trained`: see as_if_trained."""
        import torch

        torch.manual_seed(0)
        module = self.make().eval()
        return as_if_trained(module, self.inputs(2)) if trained else module

    def inputs(self, batch):
        import torch

        generator = torch.Generator().manual_seed(batch)
        return {name: recipe(batch, generator) for name, recipe in self.recipes.items()}


def as_if_trained(module, inputs):
    """Random weights as they are before training leave nothing to compare: heads and scales of zero hide the network, and
    statistics that no batch has been normalised by let activations vanish or grow without end. So zeros and tiny scales are
    replaced, and batch norms see one batch."""
    import torch

    with torch.no_grad():
        for name, p in module.named_parameters():
            same = p.numel() > 1 and bool((p == p.flatten()[0]).all())
            if same and abs(p.flatten()[0]) < 1e-2:
                if p.dim() > 1 and p.shape.numel() > max(p.shape):
                    p.normal_(0, 0.02)
                elif p.flatten()[0] != 0 or name.endswith(("weight", "gamma")):
                    p.fill_(0.2)
        norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
        for norm in norms:
            norm.usual_momentum, norm.momentum = norm.momentum, None
            norm.reset_running_stats()
            norm.train()
        if norms:
            module(*inputs.values())
        for norm in norms:
            norm.momentum = norm.usual_momentum
            norm.running_var.clamp_(min=1e-3 * float(norm.running_var.mean()) + 1e-5)
            norm.eval()
    return module


# ---- Inputs


def floats(*shape):
    def make(batch, generator):
        import torch

        return torch.randn(batch, *shape, generator=generator)
    return make


def ids(*shape, words=1000):
    def make(batch, generator):
        import torch

        return torch.randint(1, words, (batch, *shape), generator=generator)
    return make


def bits(*shape):
    """Zeros and ones, of which a tenth are ones."""
    def make(batch, generator):
        import torch

        return (torch.rand(batch, *shape, generator=generator) < 0.1).float()
    return make


def mask(length):
    """Ones; the last sample is a quarter shorter."""
    def make(batch, generator):
        import torch

        ones = torch.ones(batch, length, dtype=torch.long)
        ones[-1, length - length // 4:] = 0
        return ones
    return make


def image(size=224):
    return {"image": floats(3, size, size)}


# ---- Libraries


def torchvision_model(name):
    """Detectors without what follows their heads, whose results have sizes that depend on the data."""
    import torchvision

    options = {"weights": None}
    if name in ("googlenet", "inception_v3"):
        options.update(init_weights=False, aux_logits=False)
    if name.partition("_")[0] in ("deeplabv3", "fcn", "lraspp", "retinanet", "ssdlite320", "fcos"):
        options["weights_backbone"] = None
    model = torchvision.models.get_model(name, **options)
    if hasattr(model, "backbone") and hasattr(model, "head"):
        return heads_alone(model)
    return first_result(model) if name in ("fcn_resnet50", "deeplabv3_resnet50", "lraspp_mobilenet_v3_large") else model


def heads_alone(model):
    from torch import nn

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone, self.head = model.backbone, model.head

        def forward(self, image):
            return tuple(self.head(list(self.backbone(image).values())).values())
    return Heads()


def first_result(model):
    from torch import nn

    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, image):
            return self.model(image)["out"]
    return First()


def optical_flow():
    from torch import nn
    from torchvision.models.optical_flow import raft_small

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = raft_small(weights=None)

        def forward(self, first, second):
            return self.model(first, second, num_flow_updates=4)[-1]
    return Flow()


def timm_model(name):
    import timm

    return timm.create_model(name, pretrained=False)


@functools.lru_cache(None)
def timm_size(name):
    import timm

    return timm.get_pretrained_cfg(name).input_size[-1]


def timm_image(name):
    def make(batch, generator):
        size = timm_size(name)
        return floats(3, size, size)(batch, generator)
    return {"image": make}


def transformers_model(kind, field, names, config, constants):
    """A model of the library as a module of tensors: positional arguments, and `field` of what it returns."""
    import transformers
    from torch import nn

    config = dict(config)
    name = config.pop("config", kind[:kind.index("Model") if "Model" in kind else kind.index("For")] + "Config")
    model = getattr(transformers, kind)(getattr(transformers, name)(**config))

    class Fields(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *tensors):
            out = self.model(**dict(zip(names, tensors)), **constants)
            return getattr(out, field)
    return Fields()


def decoder_step(kind, config):
    """One token of a decoder, which sees what came before through its cache, and returns that with the token's own part."""
    import torch
    import transformers
    from torch import nn

    config = getattr(transformers, kind.replace("ForCausalLM", "").replace("LMHeadModel", "") + "Config")(**config)
    model = getattr(transformers, kind)(config)

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, token, *past):
            cache = transformers.DynamicCache(list(zip(past[::2], past[1::2])), config=config)
            out = self.model(input_ids=token, past_key_values=cache, use_cache=True)
            layers = out.past_key_values.layers
            return (out.logits, *(t for layer in layers for t in (layer.keys, layer.values)))
    return Step()


def past(layers, heads, length, size):
    return {f"past_{i}_{part}": floats(heads, length, size) for i in range(layers) for part in ("key", "value")}


def own(name, *arguments):
    return getattr(importlib.import_module("zoo_own"), name)(*arguments)


# ---- The list

TORCHVISION = {
    "cnn": "alexnet vgg16 squeezenet1_1 googlenet inception_v3:299 densenet121 resnet50 resnext50_32x4d regnet_y_1_6gf "
           "mobilenet_v2 mobilenet_v3_large shufflenet_v2_x1_0 efficientnet_b0 efficientnet_v2_s convnext_tiny",
    "windows": "swin_t swin_v2_t maxvit_t",
    "transformer": "vit_b_16",
    "segmentation": "deeplabv3_resnet50:256 lraspp_mobilenet_v3_large:256",
    "detection": "retinanet_resnet50_fpn:320 ssdlite320_mobilenet_v3_large:320",
}

VIDEO = "r3d_18:112 r2plus1d_18:112 s3d:224 mvit_v2_s:224 swin3d_t:224"

TIMM = {
    "cnn": "ghostnet_100 repvgg_b0 cspdarknet53 hrnet_w18 res2net50_26w_4s resnest50d dm_nfnet_f0 xception41 mixnet_s "
           "convmixer_768_32 inception_next_tiny dpn68 mambaout_tiny starnet_s1 mobileone_s1 repvit_m1 mobilenetv4_conv_small "
           "hgnetv2_b0 ese_vovnet19b_dw dla34 rexnet_100 skresnet18 gcresnext26ts tresnet_m lcnet_050 fbnetv3_b regnetz_c16 "
           "resnetv2_50 inception_resnet_v2 pnasnet5large convnextv2_atto fasternet_t0 rdnet_tiny tf_efficientnetv2_b0 "
           "resnetblur50 seresnext26d_32x4d",
    "mixer": "mixer_b16_224 resmlp_12_224 gmlp_s16_224",
    "pooling": "poolformer_s12",
    "hybrid": "coatnet_0_rw_224 efficientformer_l1 mobilevit_s levit_128 fastvit_t8 botnet26t_256 halonet50ts "
              "lambda_resnet26t efficientvit_b1 caformer_s18 edgenext_small tiny_vit_5m_224 nextvit_small efficientvit_m0 "
              "maxxvit_rmlp_nano_rw_256 mobilevitv2_100 visformer_tiny coat_tiny pit_ti_224 swiftformer_xs shvit_s1 "
              "mobilenetv4_hybrid_medium bat_resnext26ts haloregnetz_b",
    "windows": "twins_svt_small davit_tiny gcvit_tiny hiera_tiny_224 focalnet_tiny_srf mvitv2_tiny nest_tiny "
               "swinv2_cr_tiny_224",
    "transformer": "cait_xxs24_224 xcit_tiny_12_p16_224 volo_d1_224 pvt_v2_b1 crossvit_small_240 convit_tiny "
                   "beit_base_patch16_224 eva02_tiny_patch14_224 tnt_s_patch16_224 vitamin_small_224 "
                   "deit3_small_patch16_224 vit_relpos_small_patch16_224 vit_small_patch14_reg4_dinov2",
    "recurrence": "sequencer2d_s",
}

TOKENS = {"input_ids": ids(128), "attention_mask": mask(128)}
PROMPT = {"input_ids": ids(128)}
SOUND = {"input_values": floats(16000)}
LLAMA = dict(vocab_size=8000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16)
NO_CACHE = dict(use_cache=False)

# name: (kind, class, field of the result, inputs, configuration, constant arguments)
TRANSFORMERS = {
    "bert_base": ("encoder", "BertModel", "last_hidden_state", TOKENS, {}, {}),
    "distilbert": ("encoder", "DistilBertModel", "last_hidden_state", TOKENS, {}, {}),
    "albert": ("encoder", "AlbertModel", "last_hidden_state", TOKENS,
               dict(hidden_size=768, num_attention_heads=12, intermediate_size=3072), {}),
    "mpnet": ("encoder", "MPNetModel", "last_hidden_state", TOKENS, dict(num_hidden_layers=6), {}),
    "deberta_v2": ("encoder", "DebertaV2Model", "last_hidden_state", TOKENS,
                   dict(hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_hidden_layers=6, vocab_size=30000,
                        relative_attention=True, position_buckets=64, norm_rel_ebd="layer_norm", share_att_key=True,
                        pos_att_type=["p2c", "c2p"], position_biased_input=False), {}),
    "mobilebert": ("encoder", "MobileBertModel", "last_hidden_state", TOKENS, {}, {}),
    "squeezebert": ("encoder", "SqueezeBertModel", "last_hidden_state", TOKENS, {}, {}),
    "convbert": ("encoder", "ConvBertModel", "last_hidden_state", TOKENS, dict(num_hidden_layers=6), {}),
    "nystromformer": ("encoder", "NystromformerModel", "last_hidden_state", {"input_ids": ids(256)},
                      dict(num_hidden_layers=6, segment_means_seq_len=256, max_position_embeddings=512), {}),
    "modernbert": ("encoder", "ModernBertModel", "last_hidden_state", {"input_ids": ids(256), "attention_mask": mask(256)},
                   dict(num_hidden_layers=9, global_attn_every_n_layers=3, local_attention=64,
                        attn_implementation="sdpa"), {}),
    "xlnet": ("encoder", "XLNetModel", "last_hidden_state", PROMPT,
              dict(d_model=512, n_layer=6, n_head=8, d_inner=2048), NO_CACHE),
    "t5_small": ("encoder-decoder", "T5ForConditionalGeneration", "logits", {**TOKENS, "decoder_input_ids": ids(32)},
                 {}, NO_CACHE),
    "bart_base": ("encoder-decoder", "BartModel", "last_hidden_state", {**TOKENS, "decoder_input_ids": ids(32)},
                  dict(d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12, decoder_attention_heads=12,
                       encoder_ffn_dim=3072, decoder_ffn_dim=3072), NO_CACHE),
    "gpt2": ("decoder", "GPT2LMHeadModel", "logits", PROMPT, dict(config="GPT2Config"), NO_CACHE),
    "bloom": ("decoder", "BloomForCausalLM", "logits", PROMPT,
              dict(hidden_size=1024, n_layer=6, n_head=16, vocab_size=8000), NO_CACHE),
    "pythia": ("decoder", "GPTNeoXForCausalLM", "logits", PROMPT,
               dict(hidden_size=768, num_hidden_layers=6, num_attention_heads=12, intermediate_size=3072, vocab_size=8000),
               NO_CACHE),
    "gemma2": ("decoder", "Gemma2ForCausalLM", "logits", PROMPT,
               dict(vocab_size=8000, hidden_size=768, intermediate_size=3072, num_hidden_layers=6, num_attention_heads=8,
                    num_key_value_heads=4, head_dim=96, sliding_window=64), NO_CACHE),
    "qwen3": ("decoder", "Qwen3ForCausalLM", "logits", PROMPT,
              dict(LLAMA, num_key_value_heads=4, head_dim=64), NO_CACHE),
    "mamba": ("recurrence", "MambaForCausalLM", "logits", {"input_ids": ids(64)},
              dict(hidden_size=512, num_hidden_layers=4, vocab_size=8000), NO_CACHE),
    "segformer_b0": ("segmentation", "SegformerForSemanticSegmentation", "logits", {"pixel_values": floats(3, 256, 256)},
                     {}, {}),
    "dinov2_small": ("transformer", "Dinov2Model", "last_hidden_state", {"pixel_values": floats(3, 224, 224)},
                     dict(hidden_size=384, num_attention_heads=6), {}),
    "dpt": ("segmentation", "DPTForDepthEstimation", "predicted_depth", {"pixel_values": floats(3, 384, 384)},
            dict(hidden_size=384, num_attention_heads=6, intermediate_size=1536), {}),
    "yolos_small": ("detection", "YolosForObjectDetection", "pred_boxes", {"pixel_values": floats(3, 224, 320)},
                    dict(hidden_size=384, num_attention_heads=6, intermediate_size=1536, image_size=[224, 320]), {}),
    "wav2vec2": ("audio", "Wav2Vec2Model", "last_hidden_state", SOUND, dict(num_hidden_layers=6), {}),
    "whisper_tiny_encoder": ("audio", "WhisperForAudioClassification", "logits", {"input_features": floats(80, 3000)},
                             dict(config="WhisperConfig", d_model=384, encoder_layers=4, encoder_attention_heads=6,
                                  encoder_ffn_dim=1536), {}),
    "audio_spectrogram": ("audio", "ASTModel", "last_hidden_state", {"input_values": floats(256, 128)},
                          dict(max_length=256), {}),
    "encodec": ("audio", "EncodecModel", "audio_values", {"input_values": floats(1, 24000)}, {}, {}),
    "patchtst": ("series", "PatchTSTForPrediction", "prediction_outputs", {"past_values": floats(512, 7)},
                 dict(num_input_channels=7, context_length=512, prediction_length=96, patch_length=16, patch_stride=8), {}),
    "funnel": ("encoder", "FunnelModel", "last_hidden_state", TOKENS, dict(block_sizes=[2, 2, 2]), {}),
    "roformer": ("encoder", "RoFormerModel", "last_hidden_state", TOKENS, dict(num_hidden_layers=6), {}),
    "esm": ("encoder", "EsmModel", "last_hidden_state", {"input_ids": ids(128, words=32), "attention_mask": mask(128)},
            dict(vocab_size=33, hidden_size=480, num_hidden_layers=6, num_attention_heads=20, intermediate_size=1920,
                 position_embedding_type="rotary", pad_token_id=1, mask_token_id=32), {}),
    "longformer": ("encoder", "LongformerModel", "last_hidden_state", {"input_ids": ids(512), "attention_mask": mask(512)},
                   dict(num_hidden_layers=4, attention_window=128, max_position_embeddings=1026), {}),
    "bigbird": ("encoder", "BigBirdModel", "last_hidden_state", {"input_ids": ids(512), "attention_mask": mask(512)},
                dict(num_hidden_layers=4, block_size=32, attention_type="original_full"), {}),
    "canine": ("encoder", "CanineModel", "last_hidden_state", {"input_ids": ids(512)}, dict(num_hidden_layers=4), {}),
    "perceiver": ("encoder", "PerceiverForMaskedLM", "logits", {"inputs": ids(512, words=250)},
                  dict(num_self_attends_per_block=4, max_position_embeddings=512), {}),
    "opt": ("decoder", "OPTForCausalLM", "logits", PROMPT, dict(vocab_size=8000, num_hidden_layers=6), NO_CACHE),
    "gpt_neo": ("decoder", "GPTNeoForCausalLM", "logits", PROMPT,
                dict(vocab_size=8000, hidden_size=768, num_layers=6, num_heads=12, window_size=64,
                     attention_types=[[["global", "local"], 3]]), NO_CACHE),
    "falcon": ("decoder", "FalconForCausalLM", "logits", PROMPT,
               dict(vocab_size=8000, hidden_size=1024, num_hidden_layers=6, num_attention_heads=16), NO_CACHE),
    "mpt": ("decoder", "MptForCausalLM", "logits", PROMPT, dict(vocab_size=8000, d_model=1024, n_heads=16, n_layers=6), NO_CACHE),
    "phi": ("decoder", "PhiForCausalLM", "logits", PROMPT,
            dict(vocab_size=8000, hidden_size=1024, intermediate_size=4096, num_hidden_layers=6, num_attention_heads=16), NO_CACHE),
    "mixtral": ("decoder", "MixtralForCausalLM", "logits", {"input_ids": ids(32)},
                dict(vocab_size=8000, hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8,
                     num_key_value_heads=4, num_local_experts=8, experts_implementation="batched_mm"), NO_CACHE),
    "gpt_oss": ("decoder", "GptOssForCausalLM", "logits", {"input_ids": ids(32)},
                dict(vocab_size=8000, hidden_size=512, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8,
                     num_key_value_heads=2, head_dim=64, num_local_experts=8, experts_implementation="batched_mm"), NO_CACHE),
    "rwkv": ("recurrence", "RwkvForCausalLM", "logits", {"input_ids": ids(64)},
             dict(vocab_size=8000, hidden_size=512, num_hidden_layers=4, attention_hidden_size=512), NO_CACHE),
    "mamba2": ("recurrence", "Mamba2ForCausalLM", "logits", {"input_ids": ids(64)},
               dict(vocab_size=8000, hidden_size=512, num_hidden_layers=4, num_heads=16, head_dim=64, n_groups=1, state_size=64,
                    chunk_size=32), NO_CACHE),
    "clip_vision": ("transformer", "CLIPVisionModel", "last_hidden_state", {"pixel_values": floats(3, 224, 224)},
                    dict(num_hidden_layers=6), {}),
    "siglip_vision": ("transformer", "SiglipVisionModel", "last_hidden_state", {"pixel_values": floats(3, 224, 224)},
                      dict(num_hidden_layers=6), {}),
    "cvt": ("hybrid", "CvtModel", "last_hidden_state", {"pixel_values": floats(3, 224, 224)}, dict(depth=[1, 2, 4]), {}),
    "swin2sr": ("picture", "Swin2SRForImageSuperResolution", "reconstruction", {"pixel_values": floats(3, 64, 64)},
                dict(embed_dim=60, depths=[2, 2], num_heads=[6, 6]), {}),
    "glpn": ("segmentation", "GLPNForDepthEstimation", "predicted_depth", {"pixel_values": floats(3, 256, 256)}, {}, {}),
    "detr": ("detection", "DetrForObjectDetection", "logits", {"pixel_values": floats(3, 256, 256)},
             dict(encoder_layers=3, decoder_layers=3), {}),
    "rt_detr": ("detection", "RTDetrForObjectDetection", "pred_boxes", {"pixel_values": floats(3, 320, 320)},
                dict(decoder_layers=3), {}),
    "deformable_detr": ("detection", "DeformableDetrForObjectDetection", "pred_boxes", {"pixel_values": floats(3, 256, 256)},
                        dict(encoder_layers=2, decoder_layers=2), {}),
    "sam_vision": ("windows", "SamVisionModel", "last_hidden_state", {"pixel_values": floats(3, 512, 512)},
                   dict(image_size=512, num_hidden_layers=4, global_attn_indexes=[1, 3], hidden_size=384, num_attention_heads=6),
                   {}),
    "timesformer": ("video", "TimesformerModel", "last_hidden_state", {"pixel_values": floats(8, 3, 112, 112)},
                    dict(image_size=112, num_frames=8, num_hidden_layers=6, hidden_size=384, num_attention_heads=6,
                         intermediate_size=1536), {}),
    "videomae": ("video", "VideoMAEModel", "last_hidden_state", {"pixel_values": floats(16, 3, 112, 112)},
                 dict(image_size=112, num_hidden_layers=6, hidden_size=384, num_attention_heads=6, intermediate_size=1536), {}),
    "wavlm": ("audio", "WavLMModel", "last_hidden_state", SOUND, dict(num_hidden_layers=6), {}),
    "sew_d": ("audio", "SEWDModel", "last_hidden_state", SOUND, dict(num_hidden_layers=6), {}),
    "wav2vec2_conformer": ("audio", "Wav2Vec2ConformerModel", "last_hidden_state", SOUND, dict(num_hidden_layers=4), {}),
    "clap_audio": ("audio", "ClapAudioModel", "last_hidden_state", {"input_features": floats(1, 1001, 64)},
                   dict(depths=[2, 2, 2, 2]), {}),
    "patchtsmixer": ("series", "PatchTSMixerForPrediction", "prediction_outputs", {"past_values": floats(512, 7)},
                     dict(num_input_channels=7, context_length=512, prediction_length=96, d_model=64), {}),
}

# name: (kind, batch, class of zoo_own, its arguments, inputs)
OWN = {
    "unet": ("diffusion", 32, "UNet", (), {"latent": floats(4, 32, 32), "step": ids(), "text": floats(77, 256)}),
    "dit_s2": ("diffusion", 32, "DiT", (), {"latent": floats(4, 32, 32), "step": ids()}),
    "vae_decoder": ("diffusion", 8, "VAEDecoder", (), {"latent": floats(4, 32, 32)}),
    "dcgan": ("picture", 32, "GAN", (), {"noise": floats(100, 1, 1)}),
    "edsr": ("picture", 8, "SuperResolution", (), {"image": floats(3, 96, 96)}),
    "medical_unet": ("picture", 8, "MedicalUNet", (), {"image": floats(3, 256, 256)}),
    "lstm_tagger": ("recurrence", 32, "Recurrent", ("LSTM",), {"ids": ids(64)}),
    "gru_tagger": ("recurrence", 32, "Recurrent", ("GRU",), {"ids": ids(64)}),
    "deepspeech2": ("recurrence", 32, "DeepSpeech", (), {"spectrogram": floats(1, 160, 128)}),
    "wavenet": ("audio", 8, "WaveNet", (), {"sound": floats(80, 2000)}),
    "conv_tasnet": ("audio", 8, "ConvTasNet", (), {"sound": floats(1, 16000)}),
    "dlrm": ("recommender", 32, "DLRM", (), {"numbers": floats(13), "categories": ids(26)}),
    "dcn_v2": ("recommender", 32, "DeepCross", (), {"numbers": floats(13), "categories": ids(26)}),
    "sasrec": ("recommender", 32, "SequentialRecommender", (), {"ids": ids(200)}),
    "gin": ("graph", 32, "GraphNetwork", (), {"nodes": floats(200, 64), "edges": ids(2, 800, words=200)}),
    "gat": ("graph", 8, "GraphAttention", (), {"nodes": floats(500, 256), "adjacency": bits(500, 500)}),
    "pointnet": ("graph", 32, "PointNet", (), {"points": floats(3, 1024)}),
    "dgcnn": ("graph", 8, "EdgeConv", (), {"points": floats(3, 512)}),
}

# name: (class, configuration, inputs): one token after 255
DECODERS = {
    "gpt2_step": ("GPT2LMHeadModel", {}, {"token": ids(1), **past(12, 12, 255, 64)}),
    "llama_step": ("LlamaForCausalLM", dict(LLAMA, num_key_value_heads=4), {"token": ids(1), **past(8, 4, 255, 64)}),
}


@functools.lru_cache(None)
def networks():
    """Name -> Network, in a fixed order."""
    rows = []
    for kind, names in TORCHVISION.items():
        for name, _, size in (n.partition(":") for n in names.split()):
            rows.append(Network(name, kind, functools.partial(torchvision_model, name), image(int(size or 224))))
    for name, _, size in (n.partition(":") for n in VIDEO.split()):
        rows.append(Network(name, "video", functools.partial(torchvision_model, name),
                            {"clip": floats(3, 16, int(size), int(size))}, 8))
    rows.append(Network("raft_small", "video", optical_flow, {n: floats(3, 128, 192) for n in ("first", "second")}, 8))
    for kind, names in TIMM.items():
        rows += [Network(n, kind, functools.partial(timm_model, n), timm_image(n)) for n in names.split()]
    for name, (kind, model, field, inputs, config, constants) in TRANSFORMERS.items():
        make = functools.partial(transformers_model, model, field, list(inputs), config, constants)
        rows.append(Network(name, kind, make, inputs))
    for name, (model, config, inputs) in DECODERS.items():
        rows.append(Network(name, "decoder step", functools.partial(decoder_step, model, config), inputs))
    for name, (kind, batch, model, arguments, inputs) in OWN.items():
        rows.append(Network(name, kind, functools.partial(own, model, *arguments), inputs, batch))
    return {row.name: row for row in rows}
