"""A sentiment model under a robustness limit: behavioural tests as a constraint."""

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

import acetune
from acetune.constraints.robustness import RobustnessCheck, sentiment_suite
from acetune.tasks.sst2 import made_sentences

fit, select = made_sentences(2000, seed=0), made_sentences(500, seed=1)
suite = sentiment_suite()  # ten tests; load_checklist(path) reads CheckList's own


def train(trial):
    words = HashingVectorizer(ngram_range=(1, trial.params["words"]), analyzer=trial.params["of"])
    model = words, SGDClassifier(loss="log_loss", alpha=trial.params["alpha"], random_state=0)
    x = words.transform(fit.texts)
    for _ in trial.steps(10):
        model[1].partial_fit(x, fit.labels, classes=[0, 1])
        accuracy = np.mean((positive(model, select.texts) > 0.5) == np.array(select.labels))
        trial.report(accuracy=accuracy, model=model)


def positive(model, texts):  # all texts of the suite at once, each of them once
    return model[1].predict_proba(model[0].transform(texts))[:, 1]


result = acetune.tune(
    train,
    space={
        "words": acetune.randint(1, 3),
        "of": acetune.choice(["word", "char_wb"]),
        "alpha": acetune.loguniform(1e-6, 0.3),
    },
    objective="accuracy",
    mode="max",
    constraints=[
        acetune.Constraint("afr", upper=0.2, margin_se=1, check=RobustnessCheck(suite, positive))
    ],
    max_trials=12,
    seed=0,
)
print(result)
