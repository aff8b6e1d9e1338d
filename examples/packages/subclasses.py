"""Packages whose tensors are of classes of their own: images with metadata, and graphs of tensor products."""

import numpy as np
import torch
from common import filled, numbers, train
from e3nn import o3
from monai.data import DataLoader, Dataset, MetaTensor, decollate_batch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss
from monai.networks.nets import UNet
from monai.transforms import Compose, Flip, Rotate90, ScaleIntensity, SpatialPad

image = MetaTensor(torch.arange(24.0).reshape(1, 4, 6), affine=torch.eye(4), meta={"filename_or_obj": "image"})
transform = Compose([Flip(0), Rotate90()])
turned = transform(image)
print(type(image + 1).__name__, image[0].meta["filename_or_obj"], *turned.shape, *turned.flatten().tolist())
print("inverse", torch.equal(transform.inverse(turned), image))
for batch in DataLoader(Dataset([image] * 3, transform=Compose([ScaleIntensity(), SpatialPad((8, 8))])), batch_size=2):
    print(type(batch).__name__, *batch.shape, batch.sum().item(), len(decollate_batch(batch)))

net = filled(UNet(2, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1))
images, labels, loss = numbers(2, 1, 16, 16), numbers(2, 1, 16, 16, below=2), DiceCELoss(to_onehot_y=True, softmax=True)
train("unet", net, lambda: loss(net(images), labels))
with torch.no_grad():
    windows = sliding_window_inference(MetaTensor(images), (8, 8), 2, net.eval())
print("windows", type(windows).__name__, windows.sum().item())

irreps = o3.Irreps("2x0e+1x1o")
product = filled(o3.FullyConnectedTensorProduct(irreps, "0e+1o", "3x0e+1x1o+1x2e"))
left, right = numbers(4, irreps.dim), numbers(4, 4, seed=2)
train("tensor product", product, lambda: product(left, right).square().mean())
print("harmonics", *np.round(o3.spherical_harmonics([0, 1, 2], right[:, 1:], True).flatten().tolist(), 5))
