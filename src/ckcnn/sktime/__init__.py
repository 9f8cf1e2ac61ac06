"""Estimators for sktime and scikit-learn: ``fit(X, y)``, ``predict``, ``predict_proba``."""

from ckcnn.sktime.classifier import CKCNNClassifier
from ckcnn.sktime.regressor import CKCNNRegressor

__all__ = ["CKCNNClassifier", "CKCNNRegressor"]
